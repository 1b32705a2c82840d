// The configs of all families: defaults are those of transformers, and each field changes what it should.
#include "support/family_config.h"

namespace {

/// Nomic's configs have no defaults here.
const std::string kNomic =
    R"("activation_function":"gelu","bos_token_id":null,"causal":false,"eos_token_id":null,"expert_choice_router":false,)"
    R"("ffn_div":1,"layer_norm_epsilon":1e-05,"max_trained_positions":2048,"mlp_fc1_bias":true,"mlp_fc2_bias":true,)"
    R"("moe_every_n_layers":2,"moe_impl":"megablocks","moe_normalize_expert_weights":false,"moe_top_k":2,"n_embd":768,)"
    R"("n_head":12,"n_inner":3072,"n_layer":12,"n_positions":2048,"num_experts":8,"num_shared_experts":0,)"
    R"("pad_token_id":1,"parallel_block":false,"prenorm":false,"qkv_proj_bias":true,"rotary_emb_base":10000,)"
    R"("rotary_emb_fraction":1.0,"rotary_emb_interleaved":false,"rotary_emb_scale_base":null,)"
    R"("rotary_scaling_factor":null,"scale_attn_by_inverse_layer_idx":false,"scale_attn_weights":true,)"
    R"("type_vocab_size":1,"use_rms_norm":null,"vocab_size":250048)";

/// DeepSeek-V2's defaults in transformers have no num_experts_per_tok; published configs of GLM-4 give head_dim.
const std::string kTop6 = R"("num_experts_per_tok":6)", kHead128 = R"("head_dim":128)";

/// transformers' defaults are of a model without experts and with inputs of single layers.
const std::string kGemma =
    R"("hidden_size_per_layer_input":0,"enable_moe_block":true,"num_experts":128,"top_k_experts":8,)"
    R"("moe_intermediate_size":704)";

TEST_CASE("family configs: defaults are those of transformers") {
  struct Row {
    std::string family, fields, description;
  };
  const Row rows[] = {
      {"switch_transformers", "",
       " vocab 32128 width 768 rms 1e-06 context 0 tied head-scale 0.03608439 start 0 end 1 pad 0 |"
       " encoder dsdddsdddsdd dense 2048 relu attention heads 12 of 64 kv 12 scale 1 buckets 32 distance 128 |"
       " decoder causal dsdddsdddsdd dense 2048 relu attention heads 12 of 64 kv 12 scale 1"
       " cross-attention heads 12 of 64 kv 12 scale 1 buckets 32 distance 128 |"
       " experts 8 top 1 softmax capacity 64 expert 2048 relu "},
      {"nllb-moe", "",
       " vocab 128112 width 1024 layer-norm 1e-05 context 1024 tied embedding-scale 32 start 2 end 2 pad 1 |"
       " encoder dddsdddsddds dense 4096 relu biased attention heads 16 of 64 kv 16 scale 0.125 biased output-biased"
       " sines 512 behind 1 |"
       " decoder causal dddsdddsddds dense 4096 relu biased attention heads 16 of 64 kv 16 scale 0.125 biased"
       " output-biased cross-attention heads 16 of 64 kv 16 scale 0.125 biased output-biased sines 512 behind 1 |"
       " experts 128 top 2 softmax normalized factor 0.8 expert 4096 relu biased "},
      {"olmoe", "",
       " vocab 50304 width 2048 rms 1e-05 context 4096 untied end 50279 pad 1 | decoder causal s16"
       " attention heads 16 of 128 kv 16 scale 0.088388346 row-norms rope 128 frequency 0.86596435 |"
       " experts 64 top 8 softmax expert 2048 swiglu "},
      {"mixtral", "",
       " vocab 32000 width 4096 rms 1e-05 context 131072 untied end 2 | decoder causal s32"
       " attention heads 32 of 128 kv 8 scale 0.088388346 rope 128 frequency 0.8058422 |"
       " experts 8 top 2 softmax normalized expert 14336 swiglu "},
      {"qwen2_moe", "",
       " vocab 151936 width 2048 rms 1e-06 context 32768 untied | decoder causal s24"
       " attention heads 16 of 128 kv 16 scale 0.088388346 biased rope 128 frequency 0.86596435 |"
       " experts 60 top 4 softmax expert 1408 swiglu shared 5632 swiglu by sigmoid "},
      {"qwen3_moe", "",
       " vocab 151936 width 2048 rms 1e-06 context 32768 untied | decoder causal s24"
       " attention heads 32 of 64 kv 4 scale 0.125 head-norms rope 64 frequency 0.7498942 |"
       " experts 128 top 8 softmax expert 768 swiglu "},
      {"gpt_oss", "",
       " vocab 201088 width 2880 rms 1e-05 context 131072 untied | decoder causal s36 windows 128 0 128 0 128 0 128 0"
       " 128 0 128 0 128 0 128 0 128 0 128 0 128 0 128 0 128 0 128 0 128 0 128 0 128 0 128 0"
       " attention heads 64 of 64 kv 8 scale 0.125 biased output-biased sinks"
       " rope 64 frequency 0.6890443 magnitude 1.3465736 |"
       " experts 128 top 4 softmax-of-chosen router-biased expert 2880 clamped-swiglu biased "},
      {"deepseek_v2", kTop6,
       " vocab 102400 width 4096 rms 1e-06 context 2048 untied end 2 | decoder causal s32 attention heads 32 of 192"
       " kv 1 scale 0.07216878 latent 512 query 1536 rotary 64 values 128 epsilon 1e-06"
       " rope 64 frequency 0.7498942 adjacent |"
       " experts 64 top 6 softmax expert 1407 swiglu shared 2814 swiglu "},
      {"deepseek_v3", "",
       " vocab 129280 width 7168 rms 1e-06 context 4096 untied extra-layers 1 end 1 | decoder causal ddds58"
       " dense 18432 swiglu attention heads 128 of 192 kv 1 scale 0.07216878 latent 512 query 1536 rotary 64 values 128"
       " epsilon 1e-06 rope 64 frequency 0.7498942 adjacent |"
       " experts 256 top 8 sigmoid corrected normalized factor 2.5 groups 8 kept 4 by 2 expert 2048 swiglu"
       " shared 2048 swiglu "},
      {"glm4_moe", kHead128,
       " vocab 151552 width 4096 rms 1e-05 context 131072 untied extra-layers 1 | decoder causal ds45"
       " dense 10944 swiglu attention heads 96 of 128 kv 8 scale 0.088388346 rope 64 frequency 0.7498942 |"
       " experts 128 top 8 sigmoid corrected normalized expert 1408 swiglu shared 1408 swiglu "},
      {"glm4_moe_lite", "",
       " vocab 154880 width 2048 rms 1e-05 context 202752 untied extra-layers 1 end 1 | decoder causal ds46"
       " dense 10240 swiglu attention heads 20 of 256 kv 1 scale 0.0625 latent 512 query 768 rotary 64 values 256"
       " epsilon 1e-06 rope 64 frequency 0.7498942 adjacent |"
       " experts 64 top 4 sigmoid corrected normalized factor 1.8 expert 1536 swiglu shared 1536 swiglu "},
      {"qwen3_next", "",
       " vocab 151936 width 2048 rms 1e-06 context 32768 untied | decoder causal s48 attention heads 16 of 256 kv 2"
       " scale 0.0625 head-norms gated delta keys 16 of 128 values 32 of 128 taps 4"
       " layers rrrarrrarrrarrrarrrarrrarrrarrrarrrarrrarrrarrra rope 64 frequency 0.7498942 |"
       " experts 512 top 10 softmax normalized expert 512 swiglu shared 512 swiglu by sigmoid "},
      {"qwen3_5_moe_text", "",
       " vocab 248320 width 2048 rms 1e-06 context 32768 untied | decoder causal s40 attention heads 16 of 256 kv 2"
       " scale 0.0625 head-norms gated delta keys 16 of 128 values 32 of 128 taps 4 tiled"
       " layers rrrarrrarrrarrrarrrarrrarrrarrrarrrarrra rope 64 frequency 0.7498942 |"
       " experts 256 top 8 softmax normalized expert 512 swiglu shared 512 swiglu by sigmoid "},
      {"nomic_bert", kNomic,
       " vocab 250048 width 768 layer-norm 1e-05 context 2048 headless embedding-biased sums-from-norms pad 1 |"
       " encoder dsdsdsdsdsds dense 3072 gelu biased attention heads 12 of 64 kv 12 scale 0.125 biased output-biased"
       " rope 64 frequency 0.7498942 | experts 8 top 2 softmax biased expert 3072 gelu "},
      {"gemma4", kGemma,
       " vocab 262144 width 2304 rms 1e-06 context 131072 tied embedding-scale 48 end 1 pad 0 | decoder causal s30 "
       "windows"
       " 512 512 512 512 512 0 512 512 512 512 512 0 512 512 512 512 512 0 512 512 512 512 512 0 512 512 512 512 512 0"
       " post-norms scaled attention heads 8 of 256 kv 4 scale 1 head-norms normed-values"
       " last-attention heads 8 of 512 kv 4 scale 1 head-norms normed-values"
       " rope 256 frequency 0.93057203 other-rope 512 frequency 0.9474635 turned 64 |"
       " experts 128 top 8 softmax normalized own-norm 0.020833334 weighted branches expert 704 geglu shared 9216 "
       "geglu "},
  };
  for (const Row& row : rows) {
    CHECK(describe(row.family, row.fields) == row.description);
    CHECK(parse_family(row.family, row.fields).family == row.family);
  }
}

struct Row {
  std::string family, fields;
  std::vector<std::string> parts;  ///< of the description
};

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CASE(row.family, row.fields);
    check_has(describe(row.family, row.fields), row.parts);
  }
}

TEST_CASE("family configs: Gemma 4's text part, alone or beside a vision tower") {
  const std::string rope =
      R"("rope_parameters":{"full_attention":{"partial_rotary_factor":0.25,"rope_theta":1000000.0,)"
      R"("rope_type":"proportional"},"sliding_attention":{"rope_theta":10000.0,"rope_type":"default"}})";
  const std::string types = R"("layer_types":["sliding_attention","sliding_attention","full_attention",)"
                            R"("sliding_attention","sliding_attention"])";
  const std::string text =
      kGemma + "," + rope + "," + types +
      R"(,"attention_bias":false,"attention_k_eq_v":true,"eos_token_id":1,"final_logit_softcapping":30.0,)"
      R"("global_head_dim":512,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh","hidden_size":2816,)"
      R"("intermediate_size":2112,"max_position_embeddings":262144,"num_attention_heads":16,)"
      R"("num_global_key_value_heads":2,"num_hidden_layers":5,"num_key_value_heads":8,"num_kv_shared_layers":0,)"
      R"("pad_token_id":0,"rms_norm_eps":1e-06,"sliding_window":1024,"tie_word_embeddings":true,)"
      R"("use_bidirectional_attention":"vision","use_double_wide_mlp":false,"vocab_size":262144)";
  // The last layer has no window, whatever its type.
  CHECK(describe("gemma4", text) ==
        " vocab 262144 width 2816 rms 1e-06 context 262144 tied embedding-scale 53.065998 cap 30 end 1 pad 0 |"
        " decoder causal sssss windows 1024 1024 0 1024 0 post-norms scaled"
        " attention heads 16 of 256 kv 8 scale 1 head-norms normed-values"
        " last-attention heads 16 of 512 kv 2 scale 1 head-norms values-of-keys"
        " rope 256 frequency 0.93057203 other-rope 512 frequency 0.9474635 turned 64 |"
        " experts 128 top 8 softmax normalized own-norm 0.01884446 weighted branches expert 704 geglu"
        " shared 2112 geglu ");
  const std::string whole =
      R"("eos_token_id":[1,106],"vision_config":{"hidden_size":1152},"text_config":{)" + text + "}";
  check_has(describe("gemma4", whole), {" width 2816 ", " end 1 end 106 ", " last-attention heads 16 of 512 kv 2 "});
  const auto with = [&](const std::string& fields) { return describe("gemma4", kGemma + "," + fields); };
  check_has(with(R"("attention_k_eq_v":false,"num_global_key_value_heads":2)"),
            {" last-attention heads 8 of 512 kv 4 scale 1 head-norms normed-values "});
  check_has(with(R"("attention_k_eq_v":true)"), {" last-attention heads 8 of 512 kv 4 ", " values-of-keys "});
  check_has(with(R"("rope_parameters":{"full_attention":{"rope_type":"proportional","factor":2.0}})"),
            {" other-rope 512 frequency 0.47373176 turned 256 "});
  check_has(with(R"("rope_parameters":{"full_attention":{"rope_type":"default"}})"), {" turned 256 "});
  std::string none = kGemma;
  none.replace(none.find(":0"), 2, ":null");
  check_has(describe("gemma4", none), {" width 2304 "});
}

TEST_CASE("family configs: published configs are read") {
  const std::string yarn = R"({"beta_fast":32,"beta_slow":1,"factor":40,"original_max_position_embeddings":4096,)"
                           R"("type":"yarn","mscale":)";
  check({
      {"nllb-moe",
       R"("activation_dropout":0.0,"activation_function":"relu","architectures":["NllbMoeForConditionalGeneration"],)"
       R"("attention_dropout":0.1,"batch_prioritized_routing":false,"bos_token_id":0,"d_model":2048,)"
       R"("decoder_attention_heads":16,"decoder_ffn_dim":8192,"decoder_layerdrop":0,"decoder_layers":24,)"
       R"("decoder_sparse_step":4,"decoder_start_token_id":2,"dropout":0.1,"encoder_attention_heads":16,)"
       R"("encoder_ffn_dim":8192,"encoder_layerdrop":0,"encoder_layers":24,"encoder_sparse_step":4,"eos_token_id":2,)"
       R"("expert_capacity":64,"init_std":0.02,"is_encoder_decoder":true,"max_length":200,)"
       R"("max_position_embeddings":1024,"moe_eval_capacity_token_fraction":1.0,"moe_token_dropout":0.2,)"
       R"("normalize_router_prob_before_dropping":true,"num_experts":128,"num_hidden_layers":24,)"
       R"("output_router_logits":false,"pad_token_id":1,"router_bias":false,"router_dtype":"float32",)"
       R"("router_ignore_padding_tokens":false,"router_type":"tokens_masked","scale_embedding":true,)"
       R"("second_expert_policy":"all","use_cache":true,"vocab_size":256206)",
       {" vocab 256206 ", " embedding-scale 45.254833 ", " encoder dddsdddsdddsdddsdddsddds ",
        " causal dddsdddsdddsdddsdddsddds ", " heads 16 of 128 ", " expert 8192 "}},
      {"qwen3_moe",
       R"("attention_bias":false,"decoder_sparse_step":1,"eos_token_id":151645,"head_dim":128,"hidden_act":"silu",)"
       R"("hidden_size":2048,"intermediate_size":6144,"max_position_embeddings":40960,"max_window_layers":48,)"
       R"("mlp_only_layers":[],"moe_intermediate_size":768,"norm_topk_prob":true,"num_attention_heads":32,)"
       R"("num_experts":128,"num_experts_per_tok":8,"num_hidden_layers":48,"num_key_value_heads":4,)"
       R"("rms_norm_eps":1e-06,"rope_scaling":null,"rope_theta":1000000.0,"sliding_window":null,)"
       R"("tie_word_embeddings":false,"use_sliding_window":false,"vocab_size":151936)",
       {" s48 attention heads 32 of 128 kv 4 scale 0.088388346 ", " context 40960 ", " end 151645 ", " normalized "}},
      {"qwen3_5_moe",
       R"("architectures":["Qwen3_5MoeForConditionalGeneration"],"tie_word_embeddings":true,"vision_config":{},)"
       R"("text_config":{"attn_output_gate":true,"dtype":"bfloat16","eos_token_id":248044,"full_attention_interval":2,)"
       R"("layer_types":["linear_attention","full_attention"],"linear_num_value_heads":16,"mamba_ssm_dtype":"float32",)"
       R"("mtp_num_hidden_layers":1,"num_hidden_layers":2,"rope_parameters":{"mrope_interleaved":true,)"
       R"("mrope_section":[11,11,10],"partial_rotary_factor":0.25,"rope_theta":10000000,"rope_type":"default"}})",
       {" tied ", " end 248044 ", " values 16 of 128 ", " layers ra ", " rope 64 frequency 0.6042964 "}},
      {"qwen3_next",
       R"("decoder_sparse_step":1,"mlp_only_layers":[1],"num_hidden_layers":2,"full_attention_interval":2,)"
       R"("partial_rotary_factor":0.5,"rope_scaling":null,"rope_theta":10000000,"norm_topk_prob":false)",
       {" sd dense 5632 swiglu ", " layers ra ", " rope 128 ", " | experts 512 top 10 softmax expert "}},
      {"gpt_oss",
       R"("attention_bias":true,"eos_token_id":200002,"experts_per_token":4,"head_dim":64,"hidden_act":"silu",)"
       R"("hidden_size":2880,"initial_context_length":4096,"intermediate_size":2880,"max_position_embeddings":131072,)"
       R"("num_attention_heads":64,"num_experts_per_tok":4,"num_hidden_layers":4,"num_key_value_heads":8,)"
       R"("num_local_experts":32,"pad_token_id":199999,"quantization_config":{"quant_method":"mxfp4"},)"
       R"("rms_norm_eps":1e-05,"rope_theta":150000,"swiglu_limit":7.0,"sliding_window":128,)"
       R"("layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"],)"
       R"("tie_word_embeddings":false,"vocab_size":201088,"rope_scaling":{"beta_fast":32.0,"beta_slow":1.0,)"
       R"("factor":32.0,"truncate":false,"original_max_position_embeddings":4096,"rope_type":"yarn"})",
       {" experts 32 ", " end 200002 pad 199999 ", " windows 128 0 128 0 attention heads 64 of 64 ",
        // The default, where the config says nothing of positions.
        " rope 64 frequency 0.6890443 magnitude 1.3465736 "}},
      {"deepseek_v2",
       R"("attention_bias":false,"eos_token_id":100001,"first_k_dense_replace":1,"hidden_act":"silu",)"
       R"("hidden_size":2048,"intermediate_size":10944,"kv_lora_rank":512,"max_position_embeddings":163840,)"
       R"("moe_intermediate_size":1408,"moe_layer_freq":1,"n_group":1,"n_routed_experts":64,"n_shared_experts":2,)"
       R"("norm_topk_prob":false,"num_attention_heads":16,"num_experts_per_tok":6,"num_hidden_layers":27,)"
       R"("num_key_value_heads":16,"q_lora_rank":null,"qk_nope_head_dim":128,"qk_rope_head_dim":64,)"
       R"("rms_norm_eps":1e-06,"rope_theta":10000,"routed_scaling_factor":1.0,"scoring_func":"softmax",)"
       R"("topk_group":1,"topk_method":"greedy","v_head_dim":128,"vocab_size":102400,"rope_scaling":)" +
           yarn + R"(0.707,"mscale_all_dim":0.707})",
       // (0.1 · 0.707 · ln 40 + 1)² / sqrt(192); the pair of mscales is equal, so that the magnitude is 1.
       {" ds26 dense 10944 ", " scale 0.11472139 ", " query 0 ", " rope 64 frequency 0.7498942 adjacent "}},
      {"deepseek_v3",
       R"("attention_bias":false,"eos_token_id":1,"ep_size":1,"first_k_dense_replace":3,"hidden_act":"silu",)"
       R"("hidden_size":7168,"intermediate_size":18432,"kv_lora_rank":512,"max_position_embeddings":163840,)"
       R"("moe_intermediate_size":2048,"moe_layer_freq":1,"n_group":8,"n_routed_experts":256,"n_shared_experts":1,)"
       R"("norm_topk_prob":true,"num_attention_heads":128,"num_experts_per_tok":8,"num_hidden_layers":61,)"
       R"("num_key_value_heads":128,"num_nextn_predict_layers":1,"q_lora_rank":1536,"qk_nope_head_dim":128,)"
       R"("qk_rope_head_dim":64,"rms_norm_eps":1e-06,"rope_theta":10000,"routed_scaling_factor":2.5,)"
       R"("scoring_func":"sigmoid","topk_group":4,"topk_method":"noaux_tc","v_head_dim":128,"vocab_size":129280,)"
       R"("rope_scaling":)" +
           yarn + R"(1.0,"mscale_all_dim":1.0})",
       {" extra-layers 1 ", " ddds58 ", " scale 0.13523377 ", " rope 64 frequency 0.7498942 adjacent "}},
      {"glm4_moe",
       kHead128 +
           R"(,"attention_bias":true,"eos_token_id":[151329,151336,151338],"first_k_dense_replace":3,)"
           R"("hidden_act":"silu","hidden_size":5120,"intermediate_size":12288,"max_position_embeddings":202752,)"
           R"("moe_intermediate_size":1536,"n_group":1,"n_routed_experts":160,"n_shared_experts":1,)"
           R"("norm_topk_prob":true,"num_attention_heads":96,"num_experts_per_tok":8,"num_hidden_layers":92,)"
           R"("num_key_value_heads":8,"num_nextn_predict_layers":1,"pad_token_id":151329,"partial_rotary_factor":0.5,)"
           R"("rms_norm_eps":1e-05,"rope_scaling":null,"rope_theta":1000000,"routed_scaling_factor":2.5,)"
           R"("topk_group":1,"use_qk_norm":true,"vocab_size":151552)",
       {" ddds89 ", " extra-layers 1 end 151329 end 151336 end 151338 pad 151329 ", " factor 2.5 ",
        " heads 96 of 128 kv 8 scale 0.088388346 head-norms biased rope 64 "}},
  });
}

TEST_CASE("family configs: fields are taken under each of their names, and change the model as in transformers") {
  const std::string groups = kTop6 + R"(,"n_routed_experts":160,"n_group":8,"topk_group":3,)"
                                     R"("routed_scaling_factor":16.0,"topk_method":)";
  const std::string six = R"("num_hidden_layers":6)", four = R"("num_hidden_layers":4)",
                    window = R"("sliding_window":)";
  const std::string two_kinds = R"("num_hidden_layers":2,"layer_types":["full_attention","sliding_attention"])";
  const std::string sliding = R"(,"use_sliding_window":true)",
                    without_types =
                        sliding.substr(1) + R"(,"sliding_window":9,"layer_types":null,"num_hidden_layers":)";
  const std::string one_decoder = R"("num_decoder_layers":1,"num_sparse_decoder_layers":1,"decoder_sparse_step":0,)";
  const auto encoder = [&](int layers, int sparse) {
    return one_decoder + R"("num_layers":)" + std::to_string(layers) + R"(,"num_sparse_encoder_layers":)" +
           std::to_string(sparse);
  };
  check({
      {"switch_transformers", encoder(4, 4), {" encoder ssss "}},
      {"switch_transformers", encoder(4, 2), {" encoder dsds "}},
      {"switch_transformers", encoder(5, 2), {" encoder dsdsd "}},
      {"switch_transformers", encoder(5, 3), {" encoder sssss "}},
      {"switch_transformers", encoder(4, 0), {" encoder dsdd "}},
      {"switch_transformers", encoder(4, 2) + R"(,"encoder_sparse_step":0)", {" encoder dddd "}},
      {"switch_transformers", R"("num_layers":6,"num_decoder_layers":null)", {" decoder causal dsdsds "}},
      {"switch_transformers", R"("eos_token_id":null)", {" start 0 pad 0 "}},
      {"switch_transformers", R"("eos_token_id":[3,1])", {" end 3 end 1 "}},
      {"switch_transformers", R"("pad_token_id":3)", {" start 3 "}},
      {"switch_transformers",
       R"("expert_capacity":5,"d_model":16)",
       {" width 16 ", " head-scale 0.25 ", " capacity 5 "}},
      {"switch_transformers", R"("tie_word_embeddings":false)", {" untied start "}},
      // The description names the layer with the most experts.
      {"switch_transformers", encoder(4, 2) + R"(,"num_experts":[4,12])", {" experts 12 top 1 "}},
      {"switch_transformers", encoder(4, 4) + R"(,"num_experts":[2,9,9,1])", {" experts 9 top 1 "}},
      {"switch_transformers", R"("mlp_type":"residual","d_ff":96)", {" expert 96 relu shared 96 relu by softmax"}},
      {"switch_transformers", R"("mlp_type":"standard")", {" expert 2048 relu "}},
      {"nllb-moe", R"("scale_embedding":false)", {" tied start "}},
      {"nllb-moe", R"("moe_token_dropout":0)", {" normalized expert "}},
      {"nllb-moe", R"("router_bias":true)", {" router-biased "}},
      {"nllb-moe", R"("decoder_start_token_id":7,"eos_token_id":[3,4])", {" start 7 end 3 end 4 "}},
      {"nllb-moe",
       R"("encoder_layers":4,"encoder_sparse_step":2,"decoder_layers":3,"decoder_sparse_step":1,"pad_token_id":5)",
       {" encoder dsds ", " causal sss ", " behind 5 "}},
      // Networks of stacks may differ where only one stack has experts.
      {"nllb-moe",
       R"("encoder_sparse_step":0,"encoder_ffn_dim":96,"decoder_ffn_dim":64)",
       {" encoder d12 dense 96 ", " expert 64 ", " causal dddsdddsddds dense 64 "}},
      {"nllb-moe", R"("d_model":9,"encoder_attention_heads":3,"decoder_attention_heads":3)", {" sines 4 "}},
      {"olmoe", R"("num_local_experts":12)", {" experts 12 "}},
      {"olmoe", R"("num_experts":12,"num_experts_per_tok":12)", {" experts 12 top 12 "}},
      {"olmoe", R"("num_attention_heads":8,"num_key_value_heads":2)", {" kv 2 "}},
      {"olmoe", R"("num_key_value_heads":null)", {" kv 16 "}},
      {"olmoe", R"("num_attention_heads":32)", {" kv 32 "}},
      {"olmoe", R"("attention_bias":true)", {" biased output-biased "}},
      {"olmoe", R"("head_dim":128)", {" of 128 "}},
      {"olmoe", R"("clip_qkv":8)", {" clip 8 "}},
      {"olmoe", R"("norm_topk_prob":true)", {" normalized "}},
      {"olmoe", R"("tie_word_embeddings":true)", {" tied "}},
      {"olmoe", R"("eos_token_id":[5,7])", {" end 5 end 7 "}},
      {"olmoe", R"("eos_token_id":null,"pad_token_id":null)", {" untied | "}},
      {"olmoe", R"("eos_token_id":null,"pad_token_id":-1)", {" untied | "}},
      {"mixtral", R"("num_experts":4)", {" experts 4 "}},
      {"mixtral", R"("num_local_experts":4)", {" experts 4 "}},
      {"mixtral", R"("head_dim":64)", {" heads 32 of 64 "}},
      {"mixtral", R"("head_dim":null)", {" of 128 "}},
      {"mixtral", R"("num_key_value_heads":null)", {" kv 32 "}},
      {"mixtral", R"("sliding_window":4096,"num_hidden_layers":2)", {" ss windows 4096 4096 "}},
      {"mixtral", R"("sliding_window":null,"num_hidden_layers":2)", {" ss attention "}},
      {"mixtral", R"("intermediate_size":96)", {" expert 96 "}},
      {"qwen2_moe", R"("num_local_experts":12)", {" experts 12 "}},
      {"qwen2_moe", R"("norm_topk_prob":true)", {" normalized "}},
      {"qwen2_moe", R"("shared_expert_intermediate_size":96)", {" shared 96 "}},
      {"qwen2_moe", R"("qkv_bias":false)", {" scale 0.088388346 rope "}},
      {"qwen2_moe", R"("head_dim":64)", {" heads 16 of 64 "}},
      {"qwen2_moe", R"("hidden_size":64,"num_attention_heads":6,"num_key_value_heads":6)", {" of 10 "}},
      {"qwen2_moe", six + R"(,"decoder_sparse_step":2)", {" dsdsds dense 5632 "}},
      {"qwen2_moe", six + R"(,"decoder_sparse_step":3,"mlp_only_layers":[5])", {" ddsddd "}},
      {"qwen2_moe", six + R"(,"mlp_only_layers":[0,3])", {" dssdss "}},
      {"qwen2_moe", six + R"(,"mlp_only_layers":[])", {" ssssss "}},
      {"qwen2_moe", six + R"(,"mlp_only_layers":null)", {" ssssss "}},
      {"qwen2_moe", six + R"(,"decoder_sparse_step":2,"intermediate_size":128)", {" dense 128 "}},
      {"qwen2_moe", two_kinds + sliding + "," + window + "32", {" windows 0 32 "}},
      {"qwen2_moe", two_kinds + sliding, {" windows 0 4096 "}},
      {"qwen2_moe", two_kinds + sliding + "," + window + "null", {" ss attention "}},
      {"qwen2_moe", R"("num_hidden_layers":2,"use_sliding_window":false,"sliding_window":0)", {" ss attention "}},
      // Without layer_types, every other layer below max_window_layers.
      {"qwen2_moe", without_types + R"(5,"max_window_layers":3)", {" windows 9 0 9 0 0 "}},
      {"qwen2_moe", without_types + R"(5,"max_window_layers":0)", {" sssss attention "}},
      {"qwen2_moe", without_types + "31", {" 9 0 9 0 0 0 0 attention "}},
      {"qwen3_moe", four + R"(,"decoder_sparse_step":2)", {" dsds "}},
      {"qwen3_moe", four + R"(,"mlp_only_layers":[1])", {" sdss dense 6144 "}},
      {"qwen3_moe", R"("attention_bias":true)", {" biased output-biased "}},
      {"qwen3_moe", R"("num_local_experts":16)", {" experts 16 "}},
      // All layers, without a list of them.
      {"qwen3_moe", four + sliding + "," + window + "32", {" windows 32 32 32 32 "}},
      {"qwen3_moe", four + sliding, {" windows 4096 4096 4096 4096 "}},
      {"qwen3_moe", four + sliding + "," + window + "null", {" ssss attention "}},
      {"qwen3_moe", four + "," + window + "32", {" ssss attention "}},
      // layer_types says which layers have a window; without it every other one has.
      {"gpt_oss", R"("num_hidden_layers":3,"sliding_window":16)", {" windows 16 0 16 "}},
      {"gpt_oss",
       R"("num_hidden_layers":3,"sliding_window":16,)"
       R"("layer_types":["full_attention","full_attention","sliding_attention"])",
       {" windows 0 0 16 "}},
      {"gpt_oss", R"("num_hidden_layers":2)", {" windows 128 0 "}},
      {"gpt_oss", R"("num_experts":16)", {" experts 16 "}},
      {"gpt_oss", R"("attention_bias":false)", {" scale 0.125 sinks "}},
      {"gpt_oss", R"("hidden_size":64,"num_attention_heads":4,"head_dim":null)", {" of 16 "}},
      {"gpt_oss", R"("hidden_size":64,"num_attention_heads":4)", {" of 64 "}},
      {"gpt_oss", R"("hidden_size":2896,"intermediate_size":48)", {" width 2896 ", " expert 48 "}},
      {"gpt_oss", R"("swiglu_limit":7.0,"swiglu_alpha":1.702)", {" clamped-swiglu "}},
      // Groups count where topk_method asks for them, by their best expert.
      {"deepseek_v2", groups + R"("group_limited_greedy")", {" softmax factor 16 groups 8 kept 3 by 1 "}},
      {"deepseek_v2", groups + R"("greedy")", {" factor 16 expert "}},
      {"deepseek_v2", kTop6 + R"(,"norm_topk_prob":true)", {" softmax expert "}},
      {"deepseek_v2",
       kTop6 + R"(,"n_group":null,"topk_group":null,"topk_method":"group_limited_greedy")",
       {" softmax expert "}},
      {"deepseek_v2", kTop6 + R"(,"num_experts":12)", {" experts 12 "}},
      {"deepseek_v2", kTop6 + R"(,"n_routed_experts":12)", {" experts 12 "}},
      {"deepseek_v2", kTop6 + R"(,"n_shared_experts":0)", {" expert 1407 swiglu "}},
      {"deepseek_v2", kTop6 + R"(,"q_lora_rank":24)", {" query 24 "}},
      {"deepseek_v2",
       kTop6 + R"(,"qk_nope_head_dim":16,"qk_rope_head_dim":8,"v_head_dim":12)",
       {" heads 32 of 24 ", " rotary 8 values 12 "}},
      {"deepseek_v2", kTop6 + R"(,"num_hidden_layers":3,"first_k_dense_replace":2)", {" dds "}},
      {"deepseek_v2", kTop6 + R"(,"num_hidden_layers":3,"first_k_dense_replace":1)", {" dss dense 11008 "}},
      {"deepseek_v2", kTop6 + R"(,"num_hidden_layers":2,"first_k_dense_replace":9)", {" dd "}},
      {"deepseek_v3", R"("num_local_experts":16)", {" experts 16 "}},
      {"glm4_moe_lite", R"("num_hidden_layers":3,"first_k_dense_replace":2)", {" dds "}},
      {"glm4_moe_lite",
       R"("num_hidden_layers":4,"mlp_layer_types":["dense","sparse","dense","sparse"],"first_k_dense_replace":4)",
       {" dsds "}},
      {"glm4_moe_lite", R"("n_group":8,"topk_group":4)", {" groups 8 kept 4 by 2 "}},
      {"deepseek_v3", R"("rope_interleave":false)", {" frequency 0.7498942 | "}},
      {"deepseek_v3", R"("q_lora_rank":null)", {" query 0 "}},
      {"deepseek_v3", R"("norm_topk_prob":false)", {" corrected factor "}},
      {"deepseek_v3", R"("n_shared_experts":2)", {" shared 4096 "}},
      {"deepseek_v3", R"("n_group":1,"topk_group":1)", {" factor 2.5 expert "}},
      // The default of topk_group, of no more groups than there are.
      {"deepseek_v3", R"("n_group":2)", {" groups 2 kept 2 "}},
      {"glm4_moe", kHead128 + R"(,"num_experts":16)", {" experts 16 "}},
      {"glm4_moe", kHead128 + R"(,"n_routed_experts":16,"n_group":4,"topk_group":2)", {" groups 4 kept 2 "}},
      {"glm4_moe", kHead128 + R"(,"n_shared_experts":0)", {" expert 1408 swiglu "}},
      {"glm4_moe", kHead128 + R"(,"num_hidden_layers":2,"first_k_dense_replace":0)", {" ss "}},
      {"glm4_moe", kHead128 + R"(,"partial_rotary_factor":1.0)", {" rope 128 "}},
      {"glm4_moe", kHead128 + R"(,"rope_parameters":{"partial_rotary_factor":0.25})", {" rope 32 "}},
      // 4096 columns of 96 heads: 42 each and some left over, of which 21, with those of their pairs 22, are rotated.
      {"glm4_moe", "", {" of 42 ", " rope 22 "}},
  });
  CHECK(describe("deepseek_v2", kTop6 + R"(,"n_shared_experts":0)").find(" shared ") == std::string::npos);
  CHECK(describe("glm4_moe", kHead128 + R"(,"n_shared_experts":0)").find(" shared ") == std::string::npos);
}

TEST_CASE("family configs: positions of NLLB-MoE fall from 1 to 1/10000 over half the columns") {
  for (const StackSpec& stack : parse_family("nllb-moe").stacks) {
    const auto& frequencies = std::get<Sinusoids>(stack.positions).frequencies;
    for (size_t j = 0; j < 512; ++j) {
      const double expected = std::exp(-static_cast<double>(j) * std::log(10000.0) / 511);
      CHECK(frequencies.at(j) == doctest::Approx(expected).epsilon(2e-6));
    }
  }
}

TEST_CASE("generation config: the tokens it lists take the place of the config's") {
  const auto end_after = [](const std::string& text) {
    ModelSpec spec = parse_family("olmoe", R"("eos_token_id":2)");
    read_generation_config(text, "generation_config.json", &spec);
    return spec.tokens.end;
  };
  using Ids = std::vector<int32_t>;
  CHECK(end_after(R"({"eos_token_id":7})") == Ids{7});
  CHECK(end_after(R"({"eos_token_id":[4,0],"pad_token_id":1})") == Ids{4, 0});
  CHECK(end_after("{}") == Ids{2});
  CHECK(end_after(R"({"eos_token_id":null})") == Ids{2});
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {R"({"eos_token_id":"2"})", "found \"2\""},
           {R"({"eos_token_id":[2,2.5]})", "found 2.5"},
           {R"({"eos_token_id":{}})", "an object"},
           {R"({"eos_token_id":60000})", "found 60000"},
           {"[]", "expected an object"},
           {"{", "generation_config.json"},
       }) {
    check_error([&] { end_after(text); }, {"generation_config.json: ", part});
  }
}

}  // namespace
