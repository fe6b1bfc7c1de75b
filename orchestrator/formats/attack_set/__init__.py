"""The attack-set contest: pictures that are handed in, a hidden model, and people who grade (rules C1 to C9)."""

plugin = "orchestrator.formats.attack_set.format:AttackSet"
