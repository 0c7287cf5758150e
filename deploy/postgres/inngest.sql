-- Runs once, when the volume is new. Inngest keeps its own tables, apart from Bailiff's.
CREATE DATABASE inngest;
