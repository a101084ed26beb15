"""The staged dialect: the request of POST /chat/stream, its events, and a stream as GET /chat/stream/{session_id} tells it."""

import time
from datetime import datetime
from typing import Literal, Optional, Union

from pydantic import BaseModel, Field


class StreamEvent(BaseModel):
    """Single event in SSE stream."""

    type: Literal[
        "retrieval_start",
        "retrieval_complete",
        "reranking_start",
        "reranking_complete",
        "token",
        "done",
        "error",
        "cancelled"
    ]
    content: Union[str, dict, None] = None
    timestamp: str = Field(default_factory=lambda: datetime.utcnow().isoformat() + "Z")

    model_config = {
        "json_schema_extra": {
            "examples": [
                {
                    "type": "token",
                    "content": "Aripiprazole",
                    "timestamp": "2025-11-06T10:30:45.123Z"
                },
                {
                    "type": "retrieval_complete",
                    "content": {"stage": "retrieval", "status": "complete", "doc_count": 5},
                    "timestamp": "2025-11-06T10:30:42.456Z"
                },
                {
                    "type": "error",
                    "content": {"message": "Failed to retrieve documents", "code": "RETRIEVAL_ERROR"},
                    "timestamp": "2025-11-06T10:30:40.789Z"
                }
            ]
        }
    }


class StreamingSession(BaseModel):
    """Tracks active streaming connection state."""

    session_id: str = Field(..., pattern=r"^[a-f0-9-]{36}$")  # UUID format
    status: Literal["active", "cancelled", "completed", "error"]
    accumulated_tokens: list[str] = Field(default_factory=list)
    current_stage: Optional[str] = None
    start_time: float = Field(default_factory=time.time)
    token_count: int = Field(default=0, ge=0)
    error_message: Optional[str] = None

    model_config = {
        "json_schema_extra": {
            "examples": [
                {
                    "session_id": "550e8400-e29b-41d4-a716-446655440000",
                    "status": "active",
                    "accumulated_tokens": ["Aripiprazole", " is", " an"],
                    "current_stage": "generation",
                    "start_time": 1730892645.123,
                    "token_count": 3,
                    "error_message": None
                }
            ]
        }
    }


class ChatStreamRequest(BaseModel):
    """Request to initiate SSE streaming."""

    message: str = Field(..., min_length=1, max_length=5000)
    session_id: str = Field(..., pattern=r"^[a-f0-9-]{36}$")

    model_config = {
        "json_schema_extra": {
            "examples": [
                {
                    "message": "What are the side effects of aripiprazole?",
                    "session_id": "550e8400-e29b-41d4-a716-446655440000"
                }
            ]
        }
    }
