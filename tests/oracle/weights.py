"""Writes networks of torch, transformers and Keras with random weights, as their users save them: weights.py FOLDER.

NAME.safetensors and, of Keras, a checkpoint keras.index and its data; in NAME.npz what the network is given, x0, x1, ...,
and gives in inference, y. test_ready_models.cpp loads them by names and compares. Needs torch, transformers and Keras.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np
import tensorflow as tf
import torch
import torch.nn as nn
import transformers
from safetensors.torch import save_file

folder = sys.argv[1]
rng = np.random.default_rng(7)
torch.manual_seed(7)


def put(name, y, *inputs):
    np.savez_compressed(f"{folder}/{name}.npz", y=y, **{f"x{i}": x for i, x in enumerate(inputs)})


def stir(net):
    """No weight is 0 or 1, no statistic what it began as."""
    with torch.no_grad():
        for name, t in net.state_dict().items():
            if t.is_floating_point():
                t.add_(0.1 * torch.randn(t.shape))
            if name.endswith("running_var"):
                t.abs_().add_(0.5)
    return net.eval()


class Block(nn.Module):
    """A block of ResNet, with torchvision's names; a bottleneck where `wide`."""

    def __init__(self, cin, width, stride, wide):
        super().__init__()
        out = 4 * width if wide else width
        sizes = [(cin, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)] if wide else [
            (cin, width, 3, stride), (width, width, 3, 1)]
        for i, (a, b, k, s) in enumerate(sizes, 1):
            setattr(self, f"conv{i}", nn.Conv2d(a, b, k, s, k // 2, bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(b))
        self.count, self.downsample = len(sizes), None
        if stride > 1 or cin != out:
            self.downsample = nn.Sequential(nn.Conv2d(cin, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        h = x
        for i in range(1, self.count + 1):
            h = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(h))
            h = torch.relu(h) if i < self.count else h
        return torch.relu(h + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, blocks, width, classes, wide):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        cin = width
        for i, n in enumerate(blocks):
            layer = []
            for j in range(n):
                layer.append(Block(cin, width << i, 2 if i and j == 0 else 1, wide))
                cin = (4 if wide else 1) * (width << i)
            setattr(self, f"layer{i + 1}", nn.Sequential(*layer))
        self.count, self.fc = len(blocks), nn.Linear(cin, classes)

    def forward(self, x):
        h = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for i in range(self.count):
            h = getattr(self, f"layer{i + 1}")(h)
        return self.fc(h.mean((2, 3)))


def resnet(name, blocks, width, wide):
    net = stir(ResNet(blocks, width, 5, wide))
    save_file(net.state_dict(), f"{folder}/{name}.safetensors")
    x = rng.normal(0, 1, (2, 32, 32, 3)).astype("f4")
    with torch.no_grad():
        put(name, net(torch.from_numpy(x).permute(0, 3, 1, 2)).numpy(), x)


def texts():
    ids = rng.integers(0, 50, (3, 7)).astype("i4")
    mask = (np.arange(7) < np.array([[7], [5], [2]])).astype("i4")
    words = torch.from_numpy(ids).long()
    T = transformers
    bert = stir(T.BertModel(T.BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                                         intermediate_size=24, max_position_embeddings=12)))
    save_file(bert.state_dict(), f"{folder}/bert.safetensors")
    with torch.no_grad():
        put("bert", bert(words, attention_mask=torch.from_numpy(mask)).pooler_output.numpy(), ids, mask)
    gpt2 = stir(T.GPT2LMHeadModel(T.GPT2Config(vocab_size=50, n_positions=12, n_embd=16, n_layer=2, n_head=2)))
    gpt2.save_pretrained(f"{folder}/gpt2", safe_serialization=True)
    os.replace(f"{folder}/gpt2/model.safetensors", f"{folder}/gpt2.safetensors")
    llama = stir(T.LlamaForCausalLM(T.LlamaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, intermediate_size=24,
                                                  num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
                                                  rms_norm_eps=1e-5, max_position_embeddings=12)))
    llama.save_pretrained(f"{folder}/llama", safe_serialization=True)
    os.replace(f"{folder}/llama/model.safetensors", f"{folder}/llama.safetensors")
    with torch.no_grad():
        put("gpt2", gpt2(words).logits.numpy(), ids)
        put("llama", llama(words).logits.numpy(), ids)


def by_keras():
    L = keras.layers
    net = keras.Sequential([keras.Input((8, 8, 3)), L.Conv2D(4, 3, padding="same", name="stem"),
                            L.BatchNormalization(name="norm"), L.ReLU(), L.Flatten(), L.Dense(5, name="head")], name="net")
    for v in net.variables:
        v.assign(rng.uniform(0.1, 0.9, v.shape))
    tf.train.Checkpoint(model=net).write(f"{folder}/keras")
    x = rng.normal(0, 1, (2, 8, 8, 3)).astype("f4")
    put("keras", net(x, training=False).numpy(), x)


resnet("resnet", [1, 2], 4, False)
resnet("resnet_bottleneck", [1, 1], 4, True)
texts()
by_keras()
