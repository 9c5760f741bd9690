"""Pure decisions over manifests and transactions; no bytes, no clock, no store."""
