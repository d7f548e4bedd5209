"""What tests stand on and what must not share code with the planner: generators, references, judges."""
