"""The compiled part: tiles in LLVM's vector language, steps made of them, and whole programs."""
