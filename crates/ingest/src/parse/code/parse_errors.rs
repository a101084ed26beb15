//! Detects text that the grammar does not describe.

use tree_sitter::Tree;

/// Maximum children of an error node. The time of a query is quadratic in their number.
const MAX_CHILDREN: u32 = 500;

/// Whether a tree says little about its text: most bytes are in error nodes, or one of those has too many
/// children.
pub(super) fn dominate(tree: &Tree) -> bool {
    let mut error_bytes = 0;
    let mut reached = 0;
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        if node.is_error() {
            if node.child_count() > MAX_CHILDREN {
                return true;
            }
            error_bytes += node.end_byte().saturating_sub(node.start_byte().max(reached));
            reached = reached.max(node.end_byte());
        }
        if node.has_error() && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return 2 * error_bytes > tree.root_node().end_byte();
            }
        }
    }
}
