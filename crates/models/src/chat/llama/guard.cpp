// The calls of llama.cpp that may throw where a model's file is unusual. What they throw becomes an error in its log
// and a number that they never return otherwise: nothing may be thrown through Rust.

#include <cstdint>
#include <exception>

#include "llama.h"

namespace {

void tell(const char * what) {
    ggml_log_callback hear = nullptr;
    void * data = nullptr;
    llama_log_get(&hear, &data);
    if (hear != nullptr) {
        hear(GGML_LOG_LEVEL_ERROR, what, data);
    }
}

template <typename Call> int32_t guarded(Call call) noexcept {
    try {
        return call();
    } catch (const std::exception & thrown) {
        tell(thrown.what());
    } catch (...) {
        tell("something was thrown that says nothing");
    }
    return INT32_MIN;
}

} // namespace

extern "C" int32_t wellspring_tokenize(const llama_vocab * vocabulary, const char * text, int32_t length,
                                       llama_token * tokens, int32_t room, bool control) {
    return guarded([=] { return llama_tokenize(vocabulary, text, length, tokens, room, false, control); });
}

extern "C" int32_t wellspring_token_to_piece(const llama_vocab * vocabulary, llama_token token, char * into,
                                             int32_t room) {
    return guarded([=] { return llama_token_to_piece(vocabulary, token, into, room, 0, false); });
}

extern "C" int32_t wellspring_decode(llama_context * context, const llama_batch * batch) {
    return guarded([=] { return llama_decode(context, *batch); });
}
