// Calls of llama.cpp that may throw where a model's file is unusual. An exception becomes an error in llama.cpp's log
// and INT32_MIN, which these calls never return otherwise: unwinding through Rust frames is undefined behaviour.

#include <cstdint>
#include <exception>

#include "llama.h"

namespace {

void log_error(const char * what) {
    ggml_log_callback callback = nullptr;
    void * data = nullptr;
    llama_log_get(&callback, &data);
    if (callback != nullptr) {
        callback(GGML_LOG_LEVEL_ERROR, what, data);
    }
}

template <typename Call> int32_t guarded(Call call) noexcept {
    try {
        return call();
    } catch (const std::exception & thrown) {
        log_error(thrown.what());
    } catch (...) {
        log_error("an exception without a message");
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
