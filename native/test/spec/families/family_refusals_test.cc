// What configs of the families may not say, or what is not supported, is refused with the field's name, what was
// expected and what was found.
#include "support/family_config.h"
#include "support/tiny_model.h"

namespace {

TEST_CASE("family configs: what is out of range or not supported is named") {
  const std::string top6 = R"("num_experts_per_tok":6,)";
  check_refused("switch_transformers",
                {{R"("num_experts":0)", {"\"num_experts\"", "from 1 to 65535", "found 0"}},
                 {R"("num_experts":-1)", {"\"num_experts\"", "found -1"}},
                 {R"("num_experts":1000000000)", {"\"num_experts\"", "found 1000000000"}},
                 {R"("num_experts":1e9)", {"\"num_experts\"", "found 1e9"}},
                 {R"("num_experts":8.5)", {"found 8.5"}},
                 {R"("num_experts":"8")", {"found \"8\""}},
                 {R"("num_experts":18446744073709551617)", {"found 18446744073709551617"}},
                 {R"("d_model":9007199254740993)", {"\"d_model\"", "found 9007199254740993"}},
                 {R"("d_kv":65536,"num_heads":2)", {"\"num_heads\"", "from 1 to 1", "found 2"}},
                 {R"("num_layers":0)", {"\"num_layers\"", "found 0"}},
                 {R"("num_layers":257)", {"\"num_layers\"", "256", "found 257"}},
                 {R"("num_layers":4,"num_sparse_encoder_layers":5)", {"from 0 to 4", "found 5"}},
                 {R"("expert_capacity":0)", {"\"expert_capacity\"", "found 0"}},
                 {R"("relative_attention_num_buckets":3)", {"from 4", "found 3"}},
                 {R"("relative_attention_max_distance":16)", {"from 17", "found 16"}},
                 {R"("layer_norm_epsilon":-1)", {"\"layer_norm_epsilon\"", "found -1"}},
                 {R"("layer_norm_epsilon":1e999)", {"found 1e999"}},
                 {R"("eos_token_id":32128)", {"\"eos_token_id\"", "32127", "found 32128"}},
                 {R"("eos_token_id":[1,32128])", {"\"eos_token_id\"", "32127", "found 32128"}},
                 {R"("eos_token_id":[1,"2"])", {"\"eos_token_id\"", "a whole number", "found \"2\""}},
                 {R"("pad_token_id":null)", {"decoder_start_token_id"}},
                 {R"("tie_word_embeddings":1)", {"true or false", "found 1"}},
                 {R"("dense_act_fn":"gated-gelu")", {"\"dense_act_fn\"", "expected \"relu\"", "gated-gelu"}},
                 {R"("router_bias":true)", {"\"router_bias\"", "not supported"}},
                 {R"("router_dtype":"bfloat16")", {"\"router_dtype\"", "bfloat16"}},
                 {R"("router_ignore_padding_tokens":true)", {"\"router_ignore_padding_tokens\""}}});
  check_refused("nllb-moe",
                {{R"("activation_function":"gelu")", {"\"activation_function\"", "expected \"relu\"", "gelu"}},
                 {R"("router_dtype":"bfloat16")", {"\"router_dtype\"", "expected \"float32\"", "bfloat16"}},
                 {R"("second_expert_policy":"sampling")", {"\"second_expert_policy\"", "expected \"all\""}},
                 {R"("batch_prioritized_routing":true)", {"\"batch_prioritized_routing\"", "expected false"}},
                 {R"("moe_eval_capacity_token_fraction":0.5)",
                  {"\"moe_eval_capacity_token_fraction\"", "expected 1", "found 0.5"}},
                 {R"("moe_eval_capacity_token_fraction":-1.0)", {"\"moe_eval_capacity_token_fraction\"", "found -1"}},
                 {R"("moe_token_dropout":1.5)", {"\"moe_token_dropout\"", "found 1.5"}},
                 {R"("tie_word_embeddings":false)", {"\"tie_word_embeddings\"", "expected true"}},
                 {R"("scale_embedding":1)", {"\"scale_embedding\"", "true or false", "found 1"}},
                 {R"("router_bias":"no")", {"\"router_bias\"", "true or false"}},
                 {R"("d_model":2)", {"\"d_model\"", "from 4", "found 2"}},
                 {R"("d_model":1000)", {"\"encoder_attention_heads\"", "1000 columns of d_model", "found 16"}},
                 {R"("decoder_attention_heads":8)", {"\"decoder_attention_heads\"", "expected 16", "found 8"}},
                 {R"("encoder_attention_heads":0)", {"\"encoder_attention_heads\"", "found 0"}},
                 {R"("decoder_ffn_dim":1024)", {"\"decoder_ffn_dim\"", "expected 4096", "found 1024"}},
                 {R"("encoder_ffn_dim":0)", {"\"encoder_ffn_dim\"", "found 0"}},
                 {R"("num_experts":1)", {"\"num_experts\"", "from 2 to 65535", "found 1"}},
                 {R"("num_experts":65536)", {"\"num_experts\"", "found 65536"}},
                 {R"("encoder_layers":0)", {"\"encoder_layers\"", "found 0"}},
                 {R"("decoder_layers":257)", {"\"decoder_layers\"", "256", "found 257"}},
                 {R"("decoder_sparse_step":-1)", {"\"decoder_sparse_step\"", "found -1"}},
                 {R"("max_position_embeddings":0)", {"\"max_position_embeddings\"", "found 0"}},
                 {R"("vocab_size":0)", {"\"vocab_size\"", "found 0"}},
                 {R"("pad_token_id":null)", {"\"pad_token_id\"", "a token id", "found null"}},
                 {R"("pad_token_id":128112)", {"\"pad_token_id\"", "128111", "found 128112"}},
                 {R"("decoder_start_token_id":-1)", {"\"decoder_start_token_id\"", "found -1"}},
                 {R"("eos_token_id":[2,"3"])", {"\"eos_token_id\"", "a whole number", "found \"3\""}}});
  check_refused("nomic_bert", {{"", {"\"num_experts\"", "models without experts", "found none"}},
                               {R"("num_experts":8)", {"\"activation_function\"", "expected \"gelu\"", "none"}}});
  const std::string nomic = tiny_family_config("nomic_bert");
  const auto with = [&](const std::string& field) {
    const std::string name = field.substr(0, field.find(':')), all = nomic.substr(1, nomic.size() - 2);
    const std::string own = all.substr(all.find(',') + 1);  // without the model_type
    const size_t at = own.find(name + ":");
    if (at == std::string::npos) return own + "," + field;
    const size_t end = std::min(own.size(), own.find(',', at));
    return own.substr(0, at) + field + own.substr(end);
  };
  const std::pair<const char*, std::vector<std::string>> kNomicFields[] = {
      {R"("activation_function":"swiglu")", {"\"activation_function\"", "expected \"gelu\"", "swiglu"}},
      {R"("hidden_act":"silu")", {"\"hidden_act\"", "silu"}},
      {R"("prenorm":true)", {"\"prenorm\"", "expected false"}},
      {R"("parallel_block":true)", {"\"parallel_block\""}},
      {R"("use_rms_norm":true)", {"\"use_rms_norm\""}},
      {R"("causal":true)", {"\"causal\"", "only encoders"}},
      {R"("rotary_emb_interleaved":true)", {"\"rotary_emb_interleaved\""}},
      {R"("rotary_emb_scale_base":512)", {"\"rotary_emb_scale_base\"", "expected null", "found 512"}},
      {R"("rotary_scaling_factor":2)", {"\"rotary_scaling_factor\"", "expected null"}},
      {R"("rotary_emb_fraction":0.5)", {"\"rotary_emb_fraction\"", "found 0.5"}},
      {R"("rotary_emb_fraction":null)", {"\"rotary_emb_fraction\"", "expected 1", "none"}},
      {R"("expert_choice_router":true)", {"\"expert_choice_router\""}},
      {R"("moe_normalize_expert_weights":true)", {"\"moe_normalize_expert_weights\""}},
      {R"("scale_attn_by_inverse_layer_idx":true)", {"\"scale_attn_by_inverse_layer_idx\""}},
      {R"("scale_attn_weights":false)", {"\"scale_attn_weights\"", "expected true"}},
      {R"("num_shared_experts":1)", {"\"num_shared_experts\"", "found 1"}},
      {R"("ffn_div":2)", {"\"ffn_div\"", "found 2"}},
      {R"("type_vocab_size":2)", {"\"type_vocab_size\"", "from 1 to 1", "found 2"}},
      {R"("mlp_fc2_bias":false)", {"\"mlp_fc2_bias\"", "expected true, as mlp_fc1_bias", "found false"}},
      {R"("n_head":3)", {"\"n_head\"", "8 columns", "found 3"}},
      {R"("n_head":8)", {"\"n_head\"", "an even share"}},
      {R"("n_inner":null)", {"\"n_inner\"", "a whole number from 1", "none"}},
      {R"("layer_norm_epsilon":null)", {"\"layer_norm_epsilon\"", "none"}},
      {R"("moe_every_n_layers":1)", {"\"moe_every_n_layers\"", "from 2", "found 1"}},
      {R"("moe_top_k":4)", {"\"moe_top_k\"", "from 1 to 3", "found 4"}},
  };
  for (const auto& [field, parts] : kNomicFields) check_refused("nomic_bert", {{with(field), parts}});
  check_refused(
      "olmoe",
      {{R"("vocab_size":0)", {"\"vocab_size\"", "from 1 to 16777216", "found 0"}},
       {R"("vocab_size":"50304")", {"\"vocab_size\"", "found \"50304\""}},
       {R"("hidden_size":65537)", {"\"hidden_size\"", "65536", "found 65537"}},
       {R"("intermediate_size":0)", {"\"intermediate_size\"", "found 0"}},
       {R"("num_hidden_layers":257)", {"\"num_hidden_layers\"", "256", "found 257"}},
       {R"("num_hidden_layers":1.5)", {"\"num_hidden_layers\"", "found 1.5"}},
       {R"("num_experts":65536)", {"\"num_experts\"", "65535", "found 65536"}},
       {R"("num_experts":65535,"num_hidden_layers":17)", {"experts of all layers", "1048576", "found 1114095"}},
       {R"("rope_theta":1,"rope_scaling":{"type":"yarn","factor":4})", {"\"rope_theta\"", "more than 1", "found 1"}},
       {R"("num_local_experts":0)", {"\"num_local_experts\"", "found 0"}},
       {R"("num_experts_per_tok":0)", {"\"num_experts_per_tok\"", "from 1 to 64", "found 0"}},
       {R"("num_experts":4)", {"\"num_experts_per_tok\"", "from 1 to 4", "found none, which is 8"}},
       {R"("num_experts":4,"num_experts_per_tok":5)", {"\"num_experts_per_tok\"", "from 1 to 4", "found 5"}},
       {R"("num_attention_heads":3)", {"\"num_attention_heads\"", "2048 columns", "found 3"}},
       {R"("num_attention_heads":2048)", {"\"num_attention_heads\"", "even", "found 2048"}},
       {R"("num_key_value_heads":5)", {"\"num_key_value_heads\"", "a divisor of the 16 heads", "found 5"}},
       {R"("num_key_value_heads":32)", {"\"num_key_value_heads\"", "from 1 to 16", "found 32"}},
       {R"("head_dim":64)", {"\"head_dim\"", "from 128 to 128", "found 64"}},
       {R"("rms_norm_eps":2)", {"\"rms_norm_eps\"", "found 2"}},
       {R"("max_position_embeddings":0)", {"\"max_position_embeddings\"", "found 0"}},
       {R"("hidden_act":"gelu")", {"\"hidden_act\"", "expected \"silu\"", "found \"gelu\"", "activations"}},
       {R"("hidden_act":1)", {"\"hidden_act\"", "found 1"}},
       {R"("clip_qkv":-1)", {"\"clip_qkv\"", "found -1"}},
       {R"("clip_qkv":"8")", {"\"clip_qkv\"", "found \"8\""}},
       {R"("norm_topk_prob":1)", {"\"norm_topk_prob\"", "true or false"}},
       {R"("tie_word_embeddings":"no")", {"\"tie_word_embeddings\"", "true or false"}},
       {R"("rope_theta":0)", {"\"rope_theta\"", "found 0"}},
       {R"("rope_theta":"10000")", {"\"rope_theta\"", "found \"10000\""}},
       {R"("rope_scaling":{"type":"dynamic","factor":2.0})",
        {"\"rope_scaling.type\"", "expected \"default\", \"linear\"", "found \"dynamic\"", "not supported"}},
       {R"("rope_parameters":{"rope_type":"longrope","rope_theta":10000.0,"factor":4})",
        {"\"rope_parameters.rope_type\"", "found \"longrope\""}},
       {R"("rope_parameters":{"rope_type":"yarn","factor":0.5})", {"\"rope_parameters.factor\"", "found 0.5"}},
       {R"("rope_parameters":{"rope_theta":-5})", {"\"rope_parameters.rope_theta\"", "found -5"}},
       {R"("rope_parameters":{"partial_rotary_factor":0.5})",
        {"\"rope_parameters.partial_rotary_factor\"", "found 0.5"}},
       {R"("rope_parameters":{"full_attention":{"rope_type":"default"}})",
        {"\"rope_parameters.full_attention\"", "an object"}},
       {R"("rope_parameters":"default")", {"\"rope_parameters\"", "an object", "found \"default\""}},
       {R"("rope_scaling":[])", {"\"rope_scaling\"", "an object", "an array of 0"}},
       {R"("eos_token_id":50304)", {"\"eos_token_id\"", "50303", "found 50304"}},
       {R"("eos_token_id":[1,-2])", {"\"eos_token_id\"", "found -2"}},
       {R"("eos_token_id":"</s>")", {"\"eos_token_id\"", "found \"</s>\""}},
       {R"("pad_token_id":-2)", {"\"pad_token_id\"", "found -2"}}});
  check_refused("mixtral",
                {{R"("sliding_window":0)", {"\"sliding_window\"", "from 1", "found 0"}},
                 {R"("sliding_window":"4096")", {"\"sliding_window\"", "found \"4096\""}},
                 {R"("num_local_experts":65536)", {"\"num_local_experts\"", "65535", "found 65536"}},
                 {R"("num_local_experts":1)", {"\"num_experts_per_tok\"", "from 1 to 1", "found none, which is 2"}},
                 {R"("num_experts_per_tok":9)", {"\"num_experts_per_tok\"", "from 1 to 8", "found 9"}},
                 {R"("num_key_value_heads":3)", {"\"num_key_value_heads\"", "divisor of the 32 heads", "found 3"}},
                 {R"("head_dim":63)", {"\"head_dim\"", "even", "found 63"}},
                 {R"("head_dim":0)", {"\"head_dim\"", "found 0"}},
                 {R"("hidden_act":"relu")", {"\"hidden_act\"", "expected \"silu\"", "found \"relu\""}},
                 {R"("partial_rotary_factor":0.5)", {"\"partial_rotary_factor\"", "expected 1", "found 0.5"}}});
  check_refused("qwen2_moe",
                {{R"("decoder_sparse_step":0)", {"\"decoder_sparse_step\"", "from 1", "found 0"}},
                 {R"("mlp_only_layers":[-1])", {"\"mlp_only_layers\"", "found -1"}},
                 {R"("mlp_only_layers":3)", {"\"mlp_only_layers\"", "a list", "found 3"}},
                 {R"("shared_expert_intermediate_size":0)", {"\"shared_expert_intermediate_size\"", "found 0"}},
                 {R"("moe_intermediate_size":262145)", {"\"moe_intermediate_size\"", "262144", "found 262145"}},
                 {R"("intermediate_size":0)", {"\"intermediate_size\"", "found 0"}},
                 {R"("qkv_bias":1)", {"\"qkv_bias\"", "true or false"}},
                 {R"("use_sliding_window":true,"sliding_window":0)", {"\"sliding_window\"", "found 0"}},
                 {R"("use_sliding_window":true,"layer_types":["full_attention"])",
                  {"\"layer_types\"", "each of the 24 layers", "found 1"}},
                 {R"("use_sliding_window":true,"layer_types":["chunked_attention"])",
                  {"\"layer_types\"", "\"full_attention\" or \"sliding_attention\"", "found \"chunked_attention\""}},
                 {R"("head_dim":63)", {"\"head_dim\"", "even", "found 63"}},
                 {R"("num_experts_per_tok":65)", {"\"num_experts_per_tok\"", "from 1 to 60", "found 65"}}});
  check_refused("qwen3_moe",
                {{R"("head_dim":127)", {"\"head_dim\"", "even", "found 127"}},
                 {R"("attention_bias":"no")", {"\"attention_bias\"", "true or false", "found \"no\""}},
                 {R"("mlp_only_layers":[0.5])", {"\"mlp_only_layers\"", "found 0.5"}},
                 {R"("decoder_sparse_step":257)", {"\"decoder_sparse_step\"", "256", "found 257"}},
                 {R"("use_sliding_window":"yes")", {"\"use_sliding_window\"", "true or false"}},
                 {R"("moe_intermediate_size":0)", {"\"moe_intermediate_size\"", "found 0"}},
                 {R"("num_experts":7)", {"\"num_experts_per_tok\"", "from 1 to 7", "found none, which is 8"}},
                 {R"("hidden_act":"gelu")", {"\"hidden_act\"", "expected \"silu\"", "found \"gelu\""}}});
  check_refused("gpt_oss",
                {{R"("quantization_config":{"quant_method":"mxfp4"},"hidden_size":2896)",
                  {"\"hidden_size\"", "a multiple of 32", "found 2896"}},
                 {R"("quantization_config":{"quant_method":"mxfp4"},"intermediate_size":48)",
                  {"\"intermediate_size\"", "a multiple of 32", "found 48"}},
                 {R"("swiglu_limit":8.0)", {"\"swiglu_limit\"", "7.0", "found 8"}},
                 {R"("swiglu_alpha":1.5)", {"\"swiglu_alpha\"", "1.702", "found 1.5"}},
                 {R"("sliding_window":0)", {"\"sliding_window\"", "found 0"}},
                 {R"("layer_types":["full_attention"])", {"\"layer_types\"", "each of the 36 layers", "found 1"}},
                 {R"("layer_types":[7])", {"\"layer_types\"", "\"sliding_attention\"", "found 7"}},
                 {R"("head_dim":5)", {"\"head_dim\"", "even", "found 5"}},
                 {R"("rope_scaling":{"rope_type":"longrope"})", {"\"rope_scaling.rope_type\"", "found \"longrope\""}},
                 {R"("num_experts_per_tok":65)", {"\"num_experts_per_tok\"", "from 1 to 64", "found 65"}}});
  check_refused(
      "deepseek_v2",
      {{"", {"\"num_experts_per_tok\"", "from 1 to 64", "found none"}},
       {top6 + R"("mlp_bias":true)", {"\"mlp_bias\"", "expected false", "found true"}},
       {top6 + R"("scoring_func":"sigmoid")", {"\"scoring_func\"", "expected \"softmax\"", "found \"sigmoid\""}},
       {top6 + R"("topk_method":"noaux_tc")", {"\"topk_method\"", "\"group_limited_greedy\"", "found \"noaux_tc\""}},
       {top6 + R"("topk_method":"group_limited_greedy","n_group":7)",
        {"\"n_group\"", "groups of equal size of the 64 experts", "found 7"}},
       {top6 + R"("topk_method":"group_limited_greedy","n_group":32,"topk_group":2)",
        {"\"topk_group\"", "at least 6 experts", "found 2 of 2"}},
       {top6 + R"("topk_method":"group_limited_greedy","n_group":8,"topk_group":9)",
        {"\"topk_group\"", "from 1 to 8", "found 9"}},
       {top6 + R"("num_attention_heads":513)", {"\"num_attention_heads\"", "512", "found 513"}},
       {top6 + R"("kv_lora_rank":0)", {"\"kv_lora_rank\"", "from 1", "found 0"}},
       {top6 + R"("q_lora_rank":0)", {"\"q_lora_rank\"", "from 1", "found 0"}},
       {top6 + R"("qk_rope_head_dim":7)", {"\"qk_rope_head_dim\"", "an even number", "found 7"}},
       {top6 + R"("qk_nope_head_dim":0)", {"\"qk_nope_head_dim\"", "found 0"}},
       {top6 + R"("v_head_dim":65537)", {"\"v_head_dim\"", "65536", "found 65537"}},
       {top6 + R"("n_shared_experts":65)", {"\"n_shared_experts\"", "from 0 to 64", "found 65"}},
       {top6 + R"("routed_scaling_factor":-1)", {"\"routed_scaling_factor\"", "found -1"}},
       {top6 + R"("first_k_dense_replace":-1)", {"\"first_k_dense_replace\"", "found -1"}}});
  check_refused(
      "glm4_moe_lite",
      {{R"("partial_rotary_factor":0.5)", {"\"partial_rotary_factor\"", "found 0.5"}},
       {R"("mlp_layer_types":["dense"])", {"\"mlp_layer_types\"", "each of the 47 layers", "found 1"}},
       {R"("mlp_layer_types":["moe"])", {"\"mlp_layer_types\"", "\"sparse\" or \"dense\"", "found \"moe\""}}});
  check_refused("deepseek_v3",
                {{R"("scoring_func":"softmax")", {"\"scoring_func\"", "expected \"sigmoid\"", "found \"softmax\""}},
                 {R"("topk_method":"greedy")", {"\"topk_method\"", "expected \"noaux_tc\"", "found \"greedy\""}},
                 {R"("n_group":3)", {"\"n_group\"", "of the 256 experts", "found 3"}},
                 {R"("n_group":256)", {"\"n_group\"", "each of 2 or more", "found 256"}},
                 {R"("n_group":257)", {"\"n_group\"", "256", "found 257"}},
                 {R"("n_routed_experts":4,"num_experts_per_tok":2)", {"\"n_group\"", "of the 4 experts", "found 8"}},
                 {R"("topk_group":9)", {"\"topk_group\"", "from 1 to 8", "found 9"}},
                 {R"("n_group":64,"topk_group":1)", {"\"topk_group\"", "at least 8 experts", "found 1 of 4"}},
                 {R"("rope_interleave":1)", {"\"rope_interleave\"", "true or false"}},
                 {R"("num_nextn_predict_layers":-1)", {"\"num_nextn_predict_layers\"", "found -1"}},
                 {R"("qk_rope_head_dim":9)", {"\"qk_rope_head_dim\"", "an even number", "found 9"}}});
  check_refused("glm4_moe",
                {{R"("head_dim":128,"partial_rotary_factor":0.0)",
                  {"\"partial_rotary_factor\"", "even number of a head's 128 columns", "found 0"}},
                 {R"("head_dim":128,"partial_rotary_factor":1.5)", {"\"partial_rotary_factor\"", "found 1.5"}},
                 {R"("head_dim":128,"use_qk_norm":1)", {"\"use_qk_norm\"", "true or false"}},
                 {R"("head_dim":128,"n_group":5)", {"\"n_group\"", "of the 128 experts", "found 5"}},
                 {R"("head_dim":128,"scoring_func":"softmax")", {"\"scoring_func\"", "found \"softmax\""}},
                 {R"("head_dim":128,"first_k_dense_replace":257)", {"\"first_k_dense_replace\"", "found 257"}},
                 {R"("head_dim":128,"num_key_value_heads":7)", {"\"num_key_value_heads\"", "96 heads", "found 7"}},
                 {R"("num_attention_heads":95)", {"\"num_attention_heads\"", "even", "found 95"}}});
  for (const char* family : {"qwen3_next", "qwen3_5_moe_text"}) {
    check_refused(
        family,
        {{R"("linear_num_value_heads":24)", {"\"linear_num_value_heads\"", "multiple of the 16 heads", "found 24"}},
         {R"("linear_num_key_heads":0)", {"\"linear_num_key_heads\"", "found 0"}},
         {R"("linear_key_head_dim":2048)", {"\"linear_key_head_dim\"", "1024", "found 2048"}},
         {R"("linear_conv_kernel_dim":17)", {"\"linear_conv_kernel_dim\"", "from 1 to 16", "found 17"}},
         {R"("layer_types":["linear_attention"])", {"\"layer_types\"", "each of the 4", "found 1"}},
         {R"("layer_types":["linear_attention","linear_attention"],"num_hidden_layers":2)",
          {"\"layer_types\"", "a layer of \"full_attention\""}},
         {R"("layer_types":["sliding_attention"])",
          {"\"layer_types\"", "\"linear_attention\"", "\"sliding_attention\""}},
         {R"("full_attention_interval":0)", {"\"full_attention_interval\"", "found 0"}},
         {R"("attention_bias":true)", {"\"attention_bias\"", "not supported"}},
         {R"("attn_output_gate":false)", {"\"attn_output_gate\"", "not supported"}},
         {R"("hidden_act":"gelu")", {"\"hidden_act\"", "expected \"silu\""}}});
  }
  check_refused("qwen3_5_moe", {{"", {"\"text_config\"", "found none"}},
                                {R"("text_config":{"hidden_act":"gelu"})", {"text_config.hidden_act"}}});
}

TEST_CASE("family configs: parts of Gemma 4 that its models with experts do not have are refused") {
  const std::string experts = R"("enable_moe_block":true,"num_experts":128,"moe_intermediate_size":704)";
  const std::string usual = experts + R"(,"top_k_experts":8,"hidden_size_per_layer_input":0)";
  const auto with = [&](const std::string& fields) { return usual + "," + fields; };
  check_refused(
      "gemma4",
      {{experts, {"\"hidden_size_per_layer_input\"", "expected 0", "none, which is 256", "not supported"}},
       {R"("hidden_size_per_layer_input":64)", {"\"hidden_size_per_layer_input\"", "found 64"}},
       {R"("hidden_size_per_layer_input":0)", {"\"enable_moe_block\"", "true", "found none", "without experts"}},
       {R"("hidden_size_per_layer_input":0,"enable_moe_block":false)", {"\"enable_moe_block\"", "found false"}},
       {R"("hidden_size_per_layer_input":0,"enable_moe_block":true)", {"\"num_experts\"", "65535", "found none"}},
       {R"("text_config":{"hidden_size_per_layer_input":0,"enable_moe_block":true,"num_experts":4})",
        {"\"text_config.moe_intermediate_size\"", "found none"}},
       {experts + R"(,"hidden_size_per_layer_input":0)", {"\"top_k_experts\"", "from 1 to 64", "found none"}},
       {with(R"("num_kv_shared_layers":2)"), {"\"num_kv_shared_layers\"", "found 2"}},
       {with(R"("attention_bias":true)"), {"\"attention_bias\"", "false", "found true"}},
       {with(R"("use_bidirectional_attention":"all")"), {"\"use_bidirectional_attention\"", "\"vision\"", "\"all\""}},
       {with(R"("per_layer_config":{})"), {"\"per_layer_config\"", "none"}},
       {with(R"("hidden_activation":"silu")"), {"\"hidden_activation\"", "gelu_pytorch_tanh", "found \"silu\""}},
       {with(R"("global_head_dim":7)"), {"\"global_head_dim\"", "even", "found 7"}},
       {with(R"("attention_k_eq_v":true,"num_global_key_value_heads":3)"),
        {"\"num_global_key_value_heads\"", "divisor of the 8 heads", "found 3"}},
       {with(R"("final_logit_softcapping":0)"), {"\"final_logit_softcapping\"", "found 0"}},
       {with(R"("sliding_window":0)"), {"\"sliding_window\"", "found 0"}},
       {with(R"("layer_types":["full_attention"])"), {"\"layer_types\"", "each of the 30 layers", "found 1"}},
       {with(R"("rope_parameters":{"full_attention":{"rope_type":"yarn"}})"),
        {"\"rope_parameters.full_attention.rope_type\"", "\"default\" or \"proportional\"", "found \"yarn\""}},
       {with(R"("rope_parameters":{"sliding_attention":{"rope_type":"proportional"}})"),
        {"\"rope_parameters.sliding_attention.rope_type\"", "\"default\"", "found \"proportional\""}},
       {with(R"("rope_parameters":{"full_attention":{"partial_rotary_factor":0.5}})"),
        {"\"rope_parameters.full_attention.partial_rotary_factor\"", "found 0.5"}}});
}

TEST_CASE("family configs: model_type chooses the family, and an unknown one is refused with the known ones") {
  const auto parse = [](const char* text) { return [=] { parse_model_config(text, "config.json"); }; };
  const std::string known = R"(expected "switch_transformers" or "olmoe" or "mixtral" or )";
  check_error(parse(R"({"model_type":"bert"})"), {"model_type", known, "found \"bert\""});
  check_error(parse(R"({"model_type":7})"), {"model_type", known, "found 7"});
  check_error(parse("{}"), {"model_type", known, "found none"});
  check_error(parse("[]"), {"an object", "an array of 0"});
  check_error(parse("{"), {});
}

}  // namespace
