"""Identity: who calls, for which tenant, and what they may do."""
