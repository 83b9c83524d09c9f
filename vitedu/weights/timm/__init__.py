"""The dialect `timm`: plain, its ViT and BiT, and eva, its ViTs with RoPE."""
