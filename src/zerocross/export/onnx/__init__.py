"""Export to ONNX: standard operators, or QONNX with BipolarQuant."""
