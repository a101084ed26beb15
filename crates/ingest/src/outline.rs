//! A document's structure, whatever it was written in: its scopes (sections of prose, definitions of code) and
//! the places where it may be cut. Flat lists in the document's order, so that no walk over them is recursive.

/// Characters of a name or signature that are kept.
const NAME_CHARS: usize = 200;

/// How deep scopes nest; what lies deeper belongs to the deepest.
pub(crate) const MAX_DEPTH: usize = 16;

/// The structure of one document.
#[derive(Debug)]
pub(crate) struct Outline {
    /// How it is written, and so how it is cut where the structure does not help.
    pub(crate) manner: Manner,
    /// Headings or definitions.
    pub(crate) scopes: Vec<Scope>,
    /// Where scopes begin and where they go on after an inner one.
    pub(crate) parts: Vec<Part>,
    /// Where paragraphs, lists, tables and code blocks begin.
    pub(crate) blocks: Vec<usize>,
    /// Where a block's own pieces begin: list items, lines of code blocks, rows of tables.
    pub(crate) items: Vec<usize>,
    /// The first level-1 heading.
    pub(crate) first_heading: Option<usize>,
}

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Sentences; line ends mean little.
    Prose,
    /// Definitions and lines.
    Code,
    /// Lines.
    Lines,
}

/// A stretch that begins at a good place to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) start: usize,
    /// A heading's level, or how many definitions are around this one.
    pub(crate) level: u8,
    /// The innermost scope that its text is in.
    pub(crate) scope: Option<usize>,
}

/// A section of prose or a definition of code.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) kind: ScopeKind,
    /// Where its heading or signature begins.
    pub(crate) start: usize,
    /// The scope around it.
    pub(crate) parent: Option<usize>,
    /// What a link to it ends with, after the `#`.
    pub(crate) anchor: Option<String>,
    name: String,
    signature: Option<String>,
}

/// What a scope is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeKind {
    /// The heading that is the document's title.
    Title,
    /// Any other heading.
    Heading,
    /// A module or namespace.
    Space,
    /// A class, struct, trait, interface, implementation.
    Type,
    /// A function or method.
    Function,
}

impl Outline {
    /// A document without parts.
    pub(crate) fn unstructured(manner: Manner) -> Self {
        Self {
            manner,
            scopes: Vec::new(),
            parts: Vec::new(),
            blocks: Vec::new(),
            items: Vec::new(),
            first_heading: None,
        }
    }

    /// The last level of parts that are always chunks of their own, unless they are too small. Deeper ones
    /// are told apart only where the part around them is too large.
    pub(crate) fn always_apart(&self) -> u8 {
        match self.manner {
            Manner::Prose => u8::MAX,
            Manner::Code | Manner::Lines => 0,
        }
    }

    /// The innermost scope at a byte.
    pub(crate) fn scope_at(&self, at: usize) -> Option<usize> {
        let part = self.parts.partition_point(|part| part.start <= at).checked_sub(1)?;
        self.parts[part].scope
    }

    /// A scope and all around it, outermost first.
    pub(crate) fn path(&self, scope: Option<usize>) -> Vec<&Scope> {
        let innermost = scope.map(|scope| &self.scopes[scope]);
        let outwards = |scope: &&Scope| scope.parent.map(|parent| &self.scopes[parent]);
        let mut path: Vec<&Scope> = std::iter::successors(innermost, outwards).collect();
        path.reverse();
        path
    }

    /// The first level-1 heading.
    pub(crate) fn first_heading(&self) -> Option<&Scope> {
        self.first_heading.map(|heading| &self.scopes[heading])
    }
}

impl Scope {
    /// A section below this heading.
    pub(crate) fn section(start: usize, parent: Option<usize>, heading: &str, anchor: String) -> Self {
        let name = clipped(heading);
        Self { kind: ScopeKind::Heading, start, parent, anchor: Some(anchor), name, signature: None }
    }

    /// A definition.
    pub(crate) fn definition(
        kind: ScopeKind,
        start: usize,
        parent: Option<usize>,
        name: &str,
        signature: &str,
    ) -> Self {
        let signature = Some(clipped(signature));
        Self { kind, start, parent, anchor: None, name: clipped(name), signature }
    }

    /// A heading's text or a definition's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What stands at its beginning: a heading's text, or a definition without its body.
    pub(crate) fn signature(&self) -> &str {
        self.signature.as_deref().unwrap_or(&self.name)
    }
}

/// On one line, and no longer than anybody reads.
fn clipped(text: &str) -> String {
    let mut clipped = String::new();
    for (count, character) in text.split_whitespace().flat_map(spaced).skip(1).enumerate() {
        if count == NAME_CHARS {
            break;
        }
        clipped.push(character);
    }
    clipped
}

fn spaced(word: &str) -> impl Iterator<Item = char> {
    std::iter::once(' ').chain(word.chars())
}
