"""Programs made from models: torch.export, AOTInductor, ONNX, TorchScript."""
