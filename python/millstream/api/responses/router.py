"""The routes of the Responses API."""

from __future__ import annotations

from fastapi import APIRouter

from millstream.api.responses import create, kept

router = APIRouter()
router.include_router(create.router)
router.include_router(kept.router)
