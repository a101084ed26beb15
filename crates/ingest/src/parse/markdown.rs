//! Outlines Markdown and MDX: headings become scopes, blocks become boundaries. Imports, exports and JSX of
//! MDX stay text or HTML, as CommonMark has it; nothing is evaluated.

mod anchors;
mod front_matter;
#[cfg(test)]
mod tests;

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::parse::lines;
use crate::parse::outline::{Outline, Part, Scope, ScopeKind, TextKind};
use anchors::Anchors;
pub use front_matter::FrontMatter;

/// Larger pages are split by paragraphs, to bound the memory of the parser.
const MAX_BYTES: usize = 16 << 20;

/// The front matter and the outline of a page.
pub(crate) fn parse(text: &str) -> (FrontMatter, Outline) {
    let (front_matter, body_start) = FrontMatter::parse(text);
    if text.len() > MAX_BYTES {
        return (front_matter, Outline::unstructured(TextKind::Prose));
    }
    let mut builder = OutlineBuilder::new(text, body_start);
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
    for (event, range) in Parser::new_ext(&text[body_start..], options).into_offset_iter() {
        builder.add(event, range.start + body_start..range.end + body_start);
    }
    let outline = builder.finish(front_matter.text("title").is_some());
    (front_matter, outline)
}

/// Folds the events of the Markdown parser into an outline.
struct OutlineBuilder<'a> {
    text: &'a str,
    outline: Outline,
    anchors: Anchors,
    /// Number of open blocks and spans.
    depth: usize,
    /// The text of the open heading.
    heading: Option<String>,
    /// The levels and scopes of the enclosing headings, outermost first.
    enclosing: Vec<(u8, usize)>,
    /// The levels of all headings.
    levels: Vec<u8>,
    /// Whether the last top-level block was a heading.
    after_heading: bool,
}

impl<'a> OutlineBuilder<'a> {
    fn new(text: &'a str, body_start: usize) -> Self {
        let mut outline = Outline::unstructured(TextKind::Prose);
        // The front matter is a block.
        outline.blocks.extend((body_start > 0).then_some(body_start));
        Self {
            text,
            outline,
            anchors: Anchors::default(),
            depth: 0,
            heading: None,
            enclosing: Vec::new(),
            levels: Vec::new(),
            after_heading: false,
        }
    }

    fn add(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => {
                self.open(&tag, range);
                self.depth += 1;
            }
            Event::End(tag) => {
                self.depth -= 1;
                if let TagEnd::Heading(level) = tag {
                    self.close_heading(level, range.start);
                }
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut self.heading {
                    heading.push_str(&text);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some(heading) = &mut self.heading {
                    heading.push(' ');
                }
            }
            Event::Rule if self.depth == 0 => self.open_block(range.start),
            _ => {}
        }
    }

    fn open(&mut self, tag: &Tag<'_>, range: Range<usize>) {
        if let Tag::Heading { .. } = tag {
            self.heading = Some(String::new());
            return;
        }
        if let (Tag::Item, 1) = (tag, self.depth) {
            self.outline.items.push(lines::start_of_indentation(self.text, range.start));
        }
        if self.depth > 0 {
            return;
        }
        self.open_block(range.start);
        if let Tag::CodeBlock(_) | Tag::HtmlBlock | Tag::Table(_) = tag {
            let lines = lines::starts(&self.text[range.clone()]);
            self.outline.items.extend(lines.map(|start| range.start + start));
        }
    }

    fn open_block(&mut self, start: usize) {
        self.outline.blocks.push(lines::start_of_indentation(self.text, start));
        self.after_heading = false;
    }

    fn close_heading(&mut self, level: HeadingLevel, start: usize) {
        let text = self.heading.take().unwrap_or_default();
        let (text, anchor) = self.anchors.of(&text);
        // A heading in a quotation or a list has an anchor but is no section of the page.
        if self.depth > 0 {
            return;
        }
        let start = lines::start_of_indentation(self.text, start);
        let level = level as u8;
        let directly_below =
            self.after_heading && self.enclosing.last().is_some_and(|&(above, _)| above < level);
        while self.enclosing.last().is_some_and(|&(above, _)| above >= level) {
            self.enclosing.pop();
        }
        let parent = self.enclosing.last().map(|&(_, scope)| scope);
        let scope = self.outline.scopes.len();
        self.outline.scopes.push(Scope::section(start, parent, text, anchor));
        self.enclosing.push((level, scope));
        self.levels.push(level);
        match self.outline.parts.last_mut() {
            // A heading directly followed by a deeper one would be a chunk without content.
            Some(part) if directly_below => part.scope = Some(scope),
            _ => self.outline.parts.push(Part { start, level, scope: Some(scope) }),
        }
        self.after_heading = true;
    }

    fn finish(mut self, has_title: bool) -> Outline {
        let first = self.levels.iter().position(|level| *level == 1);
        let several = self.levels.iter().filter(|level| **level == 1).count() > 1;
        self.outline.first_heading = first;
        // If the front matter has the title and there are several level-1 headings, all of them are sections.
        if let Some(first) = first.filter(|_| !(has_title && several)) {
            self.outline.scopes[first].kind = ScopeKind::Title;
        }
        self.outline
    }
}
