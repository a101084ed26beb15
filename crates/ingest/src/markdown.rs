//! Markdown and MDX: headings become scopes, blocks become places to cut. MDX's imports, exports and JSX are
//! text or HTML to CommonMark and stay so: nothing is ever run.

mod anchors;
mod front_matter;
#[cfg(test)]
mod tests;

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::lines;
use crate::outline::{Manner, Outline, Part, Scope, ScopeKind};
use anchors::Anchors;
pub use front_matter::FrontMatter;

/// Longer pages are cut by their paragraphs, so that the parser's memory is bounded.
const MAX_BYTES: usize = 16 << 20;

/// The front matter and the structure of a page.
pub(crate) fn read(text: &str) -> (FrontMatter, Outline) {
    let (front_matter, body_start) = FrontMatter::read(text);
    if text.len() > MAX_BYTES {
        return (front_matter, Outline::unstructured(Manner::Prose));
    }
    let mut reader = Reader::new(text, body_start);
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
    for (event, range) in Parser::new_ext(&text[body_start..], options).into_offset_iter() {
        reader.take(event, range.start + body_start..range.end + body_start);
    }
    let outline = reader.finish(front_matter.text("title").is_some());
    (front_matter, outline)
}

/// Folds the parser's events into an outline.
struct Reader<'a> {
    text: &'a str,
    outline: Outline,
    anchors: Anchors,
    /// How many blocks and spans are open.
    depth: usize,
    /// The text of the heading that is open.
    heading: Option<String>,
    /// The headings above, outermost first, with their levels.
    above: Vec<(u8, usize)>,
    /// The levels of all headings.
    levels: Vec<u8>,
    /// Whether the last thing at the top level was a heading.
    after_heading: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, body_start: usize) -> Self {
        let mut outline = Outline::unstructured(Manner::Prose);
        // The front matter is a block of its own.
        outline.blocks.extend((body_start > 0).then_some(body_start));
        Self {
            text,
            outline,
            anchors: Anchors::default(),
            depth: 0,
            heading: None,
            above: Vec::new(),
            levels: Vec::new(),
            after_heading: false,
        }
    }

    fn take(&mut self, event: Event<'_>, range: Range<usize>) {
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
            self.outline.items.push(lines::start_if_blank_before(self.text, range.start));
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
        self.outline.blocks.push(lines::start_if_blank_before(self.text, start));
        self.after_heading = false;
    }

    fn close_heading(&mut self, level: HeadingLevel, start: usize) {
        let text = self.heading.take().unwrap_or_default();
        let (text, anchor) = self.anchors.of(&text);
        // A heading inside a quotation or a list has an anchor, but is no section of the page.
        if self.depth > 0 {
            return;
        }
        let start = lines::start_if_blank_before(self.text, start);
        let level = level as u8;
        let directly_below = self.after_heading && self.above.last().is_some_and(|&(above, _)| above < level);
        while self.above.last().is_some_and(|&(above, _)| above >= level) {
            self.above.pop();
        }
        let parent = self.above.last().map(|&(_, scope)| scope);
        let scope = self.outline.scopes.len();
        self.outline.scopes.push(Scope::section(start, parent, text, anchor));
        self.above.push((level, scope));
        self.levels.push(level);
        match self.outline.parts.last_mut() {
            // A heading with nothing but another one below it would be a chunk without content.
            Some(part) if directly_below => part.scope = Some(scope),
            _ => self.outline.parts.push(Part { start, level, scope: Some(scope) }),
        }
        self.after_heading = true;
    }

    fn finish(mut self, titled: bool) -> Outline {
        let first = self.levels.iter().position(|level| *level == 1);
        let several = self.levels.iter().filter(|level| **level == 1).count() > 1;
        self.outline.first_heading = first;
        // When the front matter has the title, several level-1 headings are sections, the first one too.
        if let Some(first) = first.filter(|_| !(titled && several)) {
            self.outline.scopes[first].kind = ScopeKind::Title;
        }
        self.outline
    }
}
