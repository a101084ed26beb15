//! The KV caches of idle conversations, swapped out to plain memory: in the model's context they would slow down attention
//! for every other sequence. The least recently used are evicted beyond a number of bytes.

use super::llama::Token;
use super::prompt::Prompt;

/// A conversation with at least this many more tokens than a prompt shares is another one that only begins alike.
const OTHER_CONVERSATION_TOKENS: usize = 16;

/// Idle conversations, within a number of bytes.
pub(super) struct ConversationCache {
    max_bytes: usize,
    /// The least recently used comes first.
    conversations: Vec<IdleConversation>,
}

/// A conversation's tokens, and its KV cache in llama.cpp's serialized form.
pub(super) struct IdleConversation {
    pub(super) tokens: Vec<Token>,
    pub(super) exported: Vec<u8>,
}

impl ConversationCache {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, conversations: Vec::new() }
    }

    /// The longest common prefix of a prompt with any conversation, in tokens.
    pub(super) fn common_prefix(&self, prompt: &Prompt) -> usize {
        self.conversations.iter().map(|idle| prompt.common_prefix(&idle.tokens)).max().unwrap_or(0)
    }

    /// Passes the conversation with the longest common prefix to `resume`. It leaves the cache, since it comes back with
    /// more tokens, unless it is another conversation that only begins alike.
    pub(super) fn take(&mut self, prompt: &Prompt, resume: impl FnOnce(&IdleConversation)) {
        let common = |idle: &IdleConversation| prompt.common_prefix(&idle.tokens);
        let longest = (0..self.conversations.len()).max_by_key(|&index| common(&self.conversations[index]));
        let Some(longest) = longest else { return };
        let idle = self.conversations.remove(longest);
        resume(&idle);
        let common = common(&idle);
        let more = idle.tokens.len() - common;
        if more > common || more > OTHER_CONVERSATION_TOKENS {
            self.conversations.push(idle);
        }
    }

    /// Whether a KV cache of this many bytes can be held at all.
    pub(super) fn can_hold(&self, bytes: usize) -> bool {
        bytes <= self.max_bytes
    }

    /// Adds a conversation; removes those that it continues, and evicts others beyond the bound.
    pub(super) fn put(&mut self, conversation: IdleConversation) {
        self.conversations.retain(|other| !conversation.tokens.starts_with(&other.tokens));
        let is_known = self.conversations.iter().any(|other| other.tokens.starts_with(&conversation.tokens));
        if is_known || conversation.bytes() > self.max_bytes {
            return;
        }
        self.conversations.push(conversation);
        while self.bytes() > self.max_bytes {
            self.conversations.remove(0);
        }
    }

    fn bytes(&self) -> usize {
        self.conversations.iter().map(IdleConversation::bytes).sum()
    }
}

impl IdleConversation {
    fn bytes(&self) -> usize {
        self.exported.len() + size_of_val(self.tokens.as_slice()) + size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(tokens: &[Token]) -> IdleConversation {
        IdleConversation { tokens: tokens.to_vec(), exported: vec![0; 1_000] }
    }

    fn prompt(tokens: &[Token]) -> Prompt {
        Prompt { tokens: tokens.to_vec(), passages: Vec::new(), answer_tokens: 1 }
    }

    fn cache(count: usize, tokens: &[&[Token]]) -> ConversationCache {
        let mut cache = ConversationCache::new(count * 1_100);
        tokens.iter().for_each(|tokens| cache.put(idle(tokens)));
        cache
    }

    fn taken(cache: &mut ConversationCache, tokens: &[Token]) -> Option<Vec<Token>> {
        let mut taken = None;
        cache.take(&prompt(tokens), |idle| taken = Some(idle.tokens.clone()));
        taken
    }

    fn all(cache: &ConversationCache) -> Vec<&[Token]> {
        cache.conversations.iter().map(|idle| idle.tokens.as_slice()).collect()
    }

    #[test]
    fn a_conversation_that_goes_on_leaves_and_one_that_begins_alike_stays() {
        let mut cache = cache(4, &[&[1, 2, 9, 9], &[1, 2, 3, 4, 5], &[7]]);
        assert_eq!(cache.common_prefix(&prompt(&[1, 2, 3, 4, 6, 7])), 4);
        assert_eq!(taken(&mut cache, &[1, 2, 3, 4, 6, 7]), Some(vec![1, 2, 3, 4, 5]));
        assert_eq!(all(&cache), [&[1, 2, 9, 9][..], &[7]]);
        assert_eq!(taken(&mut cache, &[1, 8]), Some(vec![1, 2, 9, 9]));
        assert_eq!(all(&cache), [&[7][..], &[1, 2, 9, 9]], "it is the most recently used");
    }

    #[test]
    fn a_conversation_replaces_the_shorter_one_that_it_continues() {
        let mut cache = cache(4, &[&[1, 2], &[1, 2, 3]]);
        cache.put(idle(&[1, 2]));
        assert_eq!(all(&cache), [&[1, 2, 3]]);
    }

    #[test]
    fn the_least_recently_used_conversations_are_evicted_beyond_the_bound() {
        let mut cache = cache(2, &[&[1], &[2]]);
        taken(&mut cache, &[1, 2, 3]);
        cache.put(idle(&[1, 2]));
        cache.put(idle(&[3]));
        assert_eq!(all(&cache), [&[1, 2][..], &[3]]);
        cache.put(IdleConversation { exported: vec![0; 9_000], ..idle(&[4]) });
        assert_eq!(all(&cache).len(), 2);
        assert!(cache.bytes() <= 2_200);
        for number in 10..1_000 {
            cache.put(idle(&[number]));
            assert!(cache.bytes() <= 2_200);
        }
        assert_eq!(ConversationCache::new(0).common_prefix(&prompt(&[1])), 0);
    }
}
