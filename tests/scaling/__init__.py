"""Time against size: every parser of untrusted text, fed with doubling sizes of hostile shapes."""
