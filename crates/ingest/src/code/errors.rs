//! What the parser made no sense of.

use tree_sitter::Tree;

/// An error with more pieces is no slip in a file of code. A query takes the square of their number.
const MAX_PIECES: u32 = 500;

/// Whether a tree says little about its text: most of it is errors, or one of them has very many pieces.
pub(super) fn prevail(tree: &Tree) -> bool {
    let mut bytes = 0;
    let mut reached = 0;
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        if node.is_error() {
            if node.child_count() > MAX_PIECES {
                return true;
            }
            bytes += node.end_byte().saturating_sub(node.start_byte().max(reached));
            reached = reached.max(node.end_byte());
        }
        if node.has_error() && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return 2 * bytes > tree.root_node().end_byte();
            }
        }
    }
}
