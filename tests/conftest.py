"""Property tests say the same of the same code each time, on a machine of any speed."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# What decides over a change must not draw lots. New examples come with
# ``--hypothesis-profile=explore``.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", parent=settings.get_profile("explore"), derandomize=True)
settings.load_profile("gate")
