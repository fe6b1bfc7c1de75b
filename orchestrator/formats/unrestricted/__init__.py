"""The unrestricted two-player contest: any picture that people find unambiguous may break a defence (U1 to U13)."""
