"""The attack-set contest: submitted pictures, a hidden model, and people who grade (rules C1 to C9)."""

plugin = "orchestrator.formats.attack_set.format:AttackSet"
