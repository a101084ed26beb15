"""The chat dialect's requests and answers: POST /chat, POST /chat/stream, GET /health."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field, model_validator


class ChatRequest(BaseModel):
    """Request body for /chat and /chat/stream endpoints."""

    query: str = Field(
        ...,
        min_length=1,
        max_length=2000,
        description="User's question",
        examples=["What is ROS 2?"],
    )

    session_id: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        description="Client-generated UUID for conversation grouping",
    )

    mode: Literal["general", "selected_text"] = Field(
        default="general",
        description="Query mode",
    )

    selected_text: str | None = Field(
        default=None,
        max_length=10000,
        description="User-provided text for selected_text mode",
    )

    top_k: int = Field(
        default=5,
        ge=1,
        le=20,
        description="Number of chunks to retrieve",
    )

    score_threshold: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Minimum similarity score",
    )

    filters: dict[str, str | list[str]] | None = Field(
        default=None,
        description="Metadata filters (source_url, page_title, section_heading)",
    )

    @model_validator(mode="after")
    def validate_selected_text_mode(self):
        if self.mode == "selected_text" and not self.selected_text:
            raise ValueError("selected_text is required when mode is 'selected_text'")
        return self


class SourceCitation(BaseModel):
    """Citation reference for a source used in the answer."""

    source_url: str = Field(
        description="URL of source page or 'selected_text'",
    )

    page_title: str = Field(
        description="Page title or 'User Selection'",
    )

    section_heading: str = Field(
        description="Section heading within the page",
    )

    chunk_text: str = Field(
        max_length=500,
        description="Relevant text snippet",
    )

    relevance_score: float = Field(
        ge=0.0,
        le=1.0,
        description="Similarity score",
    )


class SelectedTextCitation(SourceCitation):
    """Extended citation with position offsets for selected-text mode."""

    char_start: int = Field(
        ge=0,
        description="Start character offset in selected_text",
    )

    char_end: int = Field(
        ge=0,
        description="End character offset (exclusive)",
    )

    line_start: int | None = Field(
        default=None,
        description="Start line number (1-indexed)",
    )

    line_end: int | None = Field(
        default=None,
        description="End line number (1-indexed)",
    )


class ResponseMetadata(BaseModel):
    """Metadata about the chat response."""

    query_time_ms: float = Field(
        description="Total response time in milliseconds",
    )

    chunks_retrieved: int = Field(
        description="Number of chunks considered",
    )

    model: str = Field(
        description="LLM model used",
    )


class ChatResponse(BaseModel):
    """Response body for /chat endpoint."""

    answer: str = Field(
        description="Agent's synthesized answer",
    )

    sources: list[SourceCitation] = Field(
        description="Citations for the answer",
    )

    mode: Literal["general", "selected_text"] = Field(
        description="Mode used for this response",
    )

    metadata: ResponseMetadata = Field(
        description="Response metadata",
    )


class StreamChunk(BaseModel):
    """Streaming text chunk event."""

    type: Literal["chunk"] = "chunk"
    content: str


class StreamSources(BaseModel):
    """Streaming sources event (sent at end)."""

    type: Literal["sources"] = "sources"
    sources: list[SourceCitation]


class StreamDone(BaseModel):
    """Streaming completion event."""

    type: Literal["done"] = "done"
    metadata: ResponseMetadata


class StreamError(BaseModel):
    """Streaming error event."""

    type: Literal["error"] = "error"
    error_code: str
    message: str


class ErrorResponse(BaseModel):
    """Standard error response format."""

    error_code: str = Field(
        description="Machine-readable error code",
        examples=["validation_error", "retrieval_unavailable"],
    )

    message: str = Field(
        description="Human-readable error message",
    )

    details: dict | None = Field(
        default=None,
        description="Additional error context",
    )

    trace_id: str = Field(
        description="Request trace ID for debugging",
    )


class ServiceStatus(BaseModel):
    """Status of a single service."""

    status: Literal["up", "down", "degraded"]
    latency_ms: float | None = None
    message: str | None = None


class HealthResponse(BaseModel):
    """Response for /health endpoint."""

    status: Literal["healthy", "degraded", "unhealthy"]

    services: dict[str, ServiceStatus] = Field(
        description="Status of each dependent service",
    )

    timestamp: datetime = Field(
        default_factory=datetime.utcnow,
    )
