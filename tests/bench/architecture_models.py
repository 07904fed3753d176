#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""architecture_models.py FOLDER [NAME...]: small networks of the architectures that people export today, with random weights, node for
node as PyTorch's exporters and tf2onnx write them, as ONNX test folders for compare.sh:

    architecture_models.py models && compare.sh -t 1,2 models/*
    ouro test --compare-ort models

tells where ouro is slower, and where it is wrong. Needs python3-onnx."""
import os
import sys

import architecture_algorithms
import architecture_bits
import architecture_crafts
import architecture_decoding
import architecture_detectors
import architecture_exporters
import architecture_fields
import architecture_images
import architecture_latest
import architecture_makers
import architecture_optimized
import architecture_readers
import architecture_searches
import architecture_sequences
import architecture_solvers
import architecture_sound
import architecture_tables
import architecture_vision
import architecture_weights
from architecture_net import Net


def main():
    models = {**architecture_images.MODELS, **architecture_sequences.MODELS, **architecture_detectors.MODELS, **architecture_vision.MODELS, **architecture_sound.MODELS, **architecture_bits.MODELS, **architecture_tables.MODELS, **architecture_readers.MODELS, **architecture_decoding.MODELS, **architecture_optimized.MODELS, **architecture_exporters.MODELS, **architecture_fields.MODELS, **architecture_solvers.MODELS, **architecture_makers.MODELS, **architecture_crafts.MODELS, **architecture_algorithms.MODELS, **architecture_weights.MODELS, **architecture_latest.MODELS, **architecture_searches.MODELS}
    for name in sys.argv[2:] or models:
        function, opset = models[name]
        net = Net(opset)
        function(net)
        net.save(os.path.join(sys.argv[1], name))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
