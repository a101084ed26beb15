"""Checks bodies and events against the models of this folder, for the tests.

Reads one JSON array a line: the name of a model, and a value. Answers each with one line: `ok`, or what is wrong with the
value in this model. Values are not converted: a number in a text is wrong. Nothing may be in a value that its model does not have.
"""

import json
import sys

import chat_api
import sse_events
from pydantic import BaseModel, ValidationError


def models(module):
    return {
        name: model
        for name, model in vars(module).items()
        if isinstance(model, type) and issubclass(model, BaseModel) and model is not BaseModel
    }


MODELS = models(chat_api) | models(sse_events)


def check(name, value):
    try:
        for source in value.get("sources", []):
            model = chat_api.SelectedTextCitation if "char_start" in source else chat_api.SourceCitation
            model.model_validate(source, strict=True, extra="forbid")
            # The lists of the models are of the plain ones, which have no offsets.
            for offset in ("char_start", "char_end", "line_start", "line_end"):
                source.pop(offset, None)
        MODELS[name].model_validate(value, strict=True, extra="forbid")
    except ValidationError as error:
        return str(error).replace("\n", " ")
    return "ok"


for line in sys.stdin:
    print(check(*json.loads(line)), flush=True)
