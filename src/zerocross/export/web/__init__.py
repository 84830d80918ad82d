"""Networks in a browser: WebAssembly and the playground page."""
