//! Which of vLLM's tool-call parsers a model needs. Without one, every request that carries tools
//! (all of a coding agent's) is answered with 400.

/// Families by a part of the model's name, most specific first; the parser names are those of
/// vLLM 0.26's `--tool-call-parser`.
const FAMILIES: &[(&str, &str)] = &[
    ("qwen3-coder", "qwen3_coder"),
    ("qwen3.5", "qwen3_coder"),
    ("qwen3.6", "qwen3_coder"),
    ("qwen", "hermes"),
    ("hermes", "hermes"),
    ("gpt-oss", "openai"),
    ("glm-4.5", "glm45"),
    ("glm-4.6", "glm45"),
    ("glm-4.7", "glm47"),
    ("glm-5", "glm47"),
    ("kimi-k2", "kimi_k2"),
    ("minimax-m3", "minimax_m3"),
    ("minimax-m2", "minimax_m2"),
    ("deepseek-v4", "deepseek_v4"),
    ("deepseek-v3.2", "deepseek_v32"),
    ("deepseek-v3.1", "deepseek_v31"),
    ("deepseek-v3", "deepseek_v3"),
    ("devstral", "mistral"),
    ("mistral", "mistral"),
    ("magistral", "mistral"),
    ("llama-4", "llama4_pythonic"),
    ("llama-3", "llama3_json"),
    ("granite-4", "granite4"),
    ("granite", "granite"),
    ("gemma-4", "gemma4"),
    ("seed-oss", "seed_oss"),
    ("phi-4-mini", "phi4_mini_json"),
    ("olmo-3", "olmo3"),
    ("step-3.5", "step3p5"),
];

/// The parser for a model by its name or folder; `None` where no family is recognised (the
/// operator then names one, or the model serves without tools).
pub fn tool_parser_for(model: &str) -> Option<&'static str> {
    let name = model.to_ascii_lowercase();
    FAMILIES
        .iter()
        .find(|(part, _)| name.contains(part))
        .map(|(_, parser)| *parser)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_family_wins() {
        for (model, parser) in [
            ("Qwen/Qwen3-4B-Instruct-2507", Some("hermes")),
            ("Qwen/Qwen3-Coder-30B-A3B-Instruct", Some("qwen3_coder")),
            ("openai/gpt-oss-20b", Some("openai")),
            ("/models/GLM-4.6-FP8", Some("glm45")),
            ("deepseek-ai/DeepSeek-V3.1", Some("deepseek_v31")),
            ("someone/own-model", None),
        ] {
            assert_eq!(tool_parser_for(model), parser, "{model}");
        }
    }
}
