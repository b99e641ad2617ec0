"""The operator's side: who may ask about guards from afar, and how a laptop finds whom to ask."""
