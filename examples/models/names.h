// The names of these networks' weights in other programs: rules for load_weights().
//
//   models::ResNet<models::BasicBlock> net = models::resnet18(1000);
//   load_weights(net, "resnet18.safetensors", {.rules = models::resnet_of_torchvision()});
#pragma once
#include <rill/serialize.h>

#include <vector>

namespace models {
using namespace rill;
using WeightRules = std::vector<WeightRule>;

// The axes of rill's kernels in torch's.
inline const Axes of_linear = {1, 0}, of_conv2d = {2, 3, 1, 0};

inline WeightRules resnet_of_torchvision() {
  return {
      {"*.num_batches_tracked", ""},
      {"*bn*.weight", "*bn*/scale"},
      {"*bn*.bias", "*bn*/offset"},
      {"*bn*.running_mean", "*bn*/mean"},
      {"*bn*.running_var", "*bn*/variance"},
      {"*.downsample.0.weight", "*/downsample/conv/kernel", of_conv2d},
      {"*.downsample.1.weight", "*/downsample/batch_norm/scale"},
      {"*.downsample.1.bias", "*/downsample/batch_norm/offset"},
      {"*.downsample.1.running_mean", "*/downsample/batch_norm/mean"},
      {"*.downsample.1.running_var", "*/downsample/batch_norm/variance"},
      {"*conv*.weight", "*conv*/kernel", of_conv2d},
      {"fc.weight", "fc/kernel", of_linear},
  };
}

// BERT as Hugging Face's transformers saves BertModel.
inline WeightRules bert_of_transformers() {
  return {
      {"embeddings.position_ids", ""},  // 0, 1, 2, ...
      {"embeddings.word_embeddings.weight", "words/table"},
      {"embeddings.position_embeddings.weight", "positions/table"},
      {"embeddings.token_type_embeddings.weight", "types/table"},
      {"embeddings.LayerNorm.weight", "norm/scale"},
      {"embeddings.LayerNorm.bias", "norm/offset"},
      {"encoder.layer.*.attention.self.*.weight", "layers/*/attention/*/kernel", of_linear},
      {"encoder.layer.*.attention.self.*.bias", "layers/*/attention/*/bias"},
      {"encoder.layer.*.attention.output.dense.weight", "layers/*/attention/output/kernel", of_linear},
      {"encoder.layer.*.attention.output.dense.bias", "layers/*/attention/output/bias"},
      {"encoder.layer.*.attention.output.LayerNorm.weight", "layers/*/norm_1/scale"},
      {"encoder.layer.*.attention.output.LayerNorm.bias", "layers/*/norm_1/offset"},
      {"encoder.layer.*.intermediate.dense.weight", "layers/*/feed_forward/up/kernel", of_linear},
      {"encoder.layer.*.intermediate.dense.bias", "layers/*/feed_forward/up/bias"},
      {"encoder.layer.*.output.dense.weight", "layers/*/feed_forward/down/kernel", of_linear},
      {"encoder.layer.*.output.dense.bias", "layers/*/feed_forward/down/bias"},
      {"encoder.layer.*.output.LayerNorm.weight", "layers/*/norm_2/scale"},
      {"encoder.layer.*.output.LayerNorm.bias", "layers/*/norm_2/offset"},
      {"pooler.dense.weight", "pooler/kernel", of_linear},
      {"pooler.dense.bias", "pooler/bias"},
  };
}

// GPT-2 as transformers saves GPT2Model or GPT2LMHeadModel, whose kernels are [in, out] already.
inline WeightRules gpt2_of_transformers(const std::string& prefix = "") {
  const std::string h = prefix + "h.*.";
  return {
      {h + "attn.bias", ""},         // the mask of causal attention,
      {h + "attn.masked_bias", ""},  // and its fill value
      {"lm_head.weight", ""},        // the table of words
      {prefix + "wte.weight", "wte/table"},
      {prefix + "wpe.weight", "wpe/table"},
      {prefix + "ln_f.weight", "ln_f/scale"},
      {prefix + "ln_f.bias", "ln_f/offset"},
      {h + "ln_*.weight", "h/*/norm_*/scale"},
      {h + "ln_*.bias", "h/*/norm_*/offset"},
      {h + "attn.c_attn.weight", "h/*/attention/qkv/kernel"},
      {h + "attn.c_attn.bias", "h/*/attention/qkv/bias"},
      {h + "attn.c_proj.weight", "h/*/attention/output/kernel"},
      {h + "attn.c_proj.bias", "h/*/attention/output/bias"},
      {h + "mlp.c_fc.weight", "h/*/feed_forward/up/kernel"},
      {h + "mlp.c_fc.bias", "h/*/feed_forward/up/bias"},
      {h + "mlp.c_proj.weight", "h/*/feed_forward/down/kernel"},
      {h + "mlp.c_proj.bias", "h/*/feed_forward/down/bias"},
  };
}

// Llama as transformers saves LlamaForCausalLM with tied embeddings.
inline WeightRules llama_of_transformers() {
  const std::string layer = "model.layers.*.";
  return {
      {"lm_head.weight", ""},  // the table of words
      {"*.rotary_emb.inv_freq", ""},
      {"model.embed_tokens.weight", "embed_tokens/table"},
      {"model.norm.weight", "norm/scale"},
      {layer + "input_layernorm.weight", "layers/*/norm_1/scale"},
      {layer + "post_attention_layernorm.weight", "layers/*/norm_2/scale"},
      {layer + "self_attn.q_proj.weight", "layers/*/attention/query/kernel", of_linear},
      {layer + "self_attn.k_proj.weight", "layers/*/attention/key/kernel", of_linear},
      {layer + "self_attn.v_proj.weight", "layers/*/attention/value/kernel", of_linear},
      {layer + "self_attn.o_proj.weight", "layers/*/attention/output/kernel", of_linear},
      {layer + "mlp.*_proj.weight", "layers/*/feed_forward/*/kernel", of_linear},
  };
}

}  // namespace models
