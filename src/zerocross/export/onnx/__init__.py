"""Networks as ONNX files: standard operators, or QONNX with BipolarQuant."""
