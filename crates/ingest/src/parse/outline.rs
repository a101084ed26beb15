//! The structure of a document in any language: its scopes (sections of prose, definitions of code) and the
//! positions where it may be split. The lists are flat and in the document's order, so that nesting needs no
//! recursion.

/// Maximum characters of a name or signature.
const NAME_CHARS: usize = 200;

/// Maximum nesting of scopes; deeper text belongs to the deepest scope.
pub(crate) const MAX_DEPTH: usize = 16;

/// The structure of one document.
#[derive(Debug)]
pub(crate) struct Outline {
    /// How the text is split where the structure does not help.
    pub(crate) kind: TextKind,
    /// Headings or definitions.
    pub(crate) scopes: Vec<Scope>,
    /// The starts of scopes, and of the text that follows an inner scope.
    pub(crate) parts: Vec<Part>,
    /// The starts of paragraphs, lists, tables and code blocks.
    pub(crate) blocks: Vec<usize>,
    /// The starts of list items, lines of code blocks and rows of tables.
    pub(crate) items: Vec<usize>,
    /// The index of the first level-1 heading in `scopes`.
    pub(crate) first_heading: Option<usize>,
}

/// What a text consists of, where its structure does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextKind {
    /// Sentences. Line ends have little meaning.
    Prose,
    /// Definitions and lines.
    Code,
    /// Lines.
    Lines,
}

/// A range of text that begins at a good position to split. It ends where the next part begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) start: usize,
    /// The level of the heading, or the number of enclosing definitions.
    pub(crate) level: u8,
    /// The index of the innermost scope of its text.
    pub(crate) scope: Option<usize>,
}

/// A section of prose or a definition of code.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) kind: ScopeKind,
    /// The start of its heading or signature.
    pub(crate) start: usize,
    /// The index of the enclosing scope.
    pub(crate) parent: Option<usize>,
    /// The fragment of a link to it.
    pub(crate) anchor: Option<String>,
    name: String,
    signature: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeKind {
    /// The heading that is the document's title.
    Title,
    /// Any other heading.
    Heading,
    /// A module or namespace.
    Namespace,
    /// A class, struct, trait, interface or implementation.
    Type,
    /// A function or method.
    Function,
}

impl Outline {
    /// An outline without scopes and parts.
    pub(crate) fn unstructured(kind: TextKind) -> Self {
        Self {
            kind,
            scopes: Vec::new(),
            parts: Vec::new(),
            blocks: Vec::new(),
            items: Vec::new(),
            first_heading: None,
        }
    }

    /// The deepest level of parts that become separate chunks unless they are too small. Deeper parts are
    /// split only if the part around them is too large.
    pub(crate) fn deepest_separate_level(&self) -> u8 {
        match self.kind {
            TextKind::Prose => u8::MAX,
            TextKind::Code | TextKind::Lines => 0,
        }
    }

    /// The innermost scope at a byte offset.
    pub(crate) fn scope_at(&self, at: usize) -> Option<usize> {
        let part = self.parts.partition_point(|part| part.start <= at).checked_sub(1)?;
        self.parts[part].scope
    }

    /// A scope and those that enclose it, outermost first.
    pub(crate) fn path(&self, scope: Option<usize>) -> Vec<&Scope> {
        let innermost = scope.map(|scope| &self.scopes[scope]);
        let outwards = |scope: &&Scope| scope.parent.map(|parent| &self.scopes[parent]);
        let mut path: Vec<&Scope> = std::iter::successors(innermost, outwards).collect();
        path.reverse();
        path
    }

    pub(crate) fn first_heading(&self) -> Option<&Scope> {
        self.first_heading.map(|heading| &self.scopes[heading])
    }
}

impl Scope {
    /// The section below a heading.
    pub(crate) fn section(start: usize, parent: Option<usize>, heading: &str, anchor: String) -> Self {
        let name = clipped(heading);
        Self { kind: ScopeKind::Heading, start, parent, anchor: Some(anchor), name, signature: None }
    }

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

    /// The text of a heading or the name of a definition.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The text of a heading, or a definition without its body.
    pub(crate) fn signature(&self) -> &str {
        self.signature.as_deref().unwrap_or(&self.name)
    }
}

/// Collapses white space and limits the length.
fn clipped(text: &str) -> String {
    let mut clipped = String::new();
    for (count, character) in text.split_whitespace().flat_map(with_space).skip(1).enumerate() {
        if count == NAME_CHARS {
            break;
        }
        clipped.push(character);
    }
    clipped
}

fn with_space(word: &str) -> impl Iterator<Item = char> {
    std::iter::once(' ').chain(word.chars())
}
