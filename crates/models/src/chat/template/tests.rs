use super::*;

const CHATML: &CStr = c"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

fn template(source: &CStr, adds_bos: bool) -> Result<Template, ModelError> {
    Template { template: source.to_owned(), bos: "<s>".to_owned(), eos: "</s>".to_owned(), adds_bos }
        .checked()
}

#[test]
fn the_text_around_messages_is_the_templates_own() {
    let template = template(CHATML, false).unwrap();
    let around = template.around(&[Role::System, Role::User]).unwrap();
    assert_eq!(
        around,
        ["<|im_start|>system\n", "<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"]
    );
}

#[test]
fn a_default_system_message_of_the_template_stays() {
    // As Qwen's does.
    let source = c"{%- if messages[0]['role'] == 'system' %}\n    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\n{%- else %}\n    {{- '<|im_start|>system\\nYou are Qwen.<|im_end|>\\n' }}\n{%- endif %}\n{%- for message in messages %}\n    {%- if message.role != 'system' or not loop.first %}\n        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\n    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n";
    let template = template(source, false).unwrap();
    let without = template.around(&[Role::User]).unwrap();
    let rest = "<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(without, ["<|im_start|>system\nYou are Qwen.<|im_end|>\n<|im_start|>user\n", rest]);
    let with = template.around(&[Role::System, Role::User]).unwrap();
    assert_eq!(with, ["<|im_start|>system\n", "<|im_end|>\n<|im_start|>user\n", rest]);
}

#[test]
fn the_bos_token_is_written_once_by_the_template_or_the_vocabulary() {
    let source = c"{{ bos_token }}{% for message in messages %}[{{ message.role.upper() }}]{{ message.content | trim }}{{ eos_token }}{% endfor %}";
    let around = |adds_bos| template(source, adds_bos).unwrap().around(&[Role::User]).unwrap();
    assert_eq!(around(false), ["<s>[USER]", "</s>"]);
    assert_eq!(around(true), ["[USER]", "</s>"]);
}

#[test]
fn a_template_that_refuses_system_messages_is_rendered_by_llama_cpp() {
    let source = c"{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}";
    let around = template(source, true).unwrap().around(&[Role::System, Role::User]).unwrap();
    assert_eq!(around, ["<start_of_turn>user\n", "\n\n", "<end_of_turn>\n<start_of_turn>model\n"]);
}

#[test]
fn an_unknown_template_is_refused() {
    let endless = c"{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}";
    let twice = c"{% for message in messages %}{{ message.content }}{{ message.content }}{% endfor %}";
    for source in [c"{{ secret_sauce }}", c"{% if %}", endless, twice] {
        let message = template(source, false).unwrap_err().to_string();
        assert_eq!(message, "its chat template can neither be rendered nor is it a known one");
    }
}

#[test]
fn conversations_of_any_length_are_rendered() {
    let template = template(CHATML, false).unwrap();
    let roles = [Role::User, Role::Assistant].repeat(50);
    assert_eq!(template.around(&roles).map(|around| around.len()), Some(101));
}

#[test]
fn fuzz_nearly_right_templates() {
    let seeds = [CHATML.to_bytes(), b"{{ bos_token }}{% for message in messages %}[{{ message.role.upper() }}]{{ message.content | trim }}{% endfor %}"];
    let words = [
        "{%",
        "%}",
        "{{",
        "}}",
        "{#",
        "#}",
        "{% endfor %}",
        "{% if a %}",
        "{% set x = messages %}",
        "| tojson",
        "range(9999)",
        "loop.index",
        "[0]",
        "[-1]",
        "['x']",
        "raise_exception('no')",
        "~",
        "namespace(a=1)",
        "{%- macro f(x) %}",
    ];
    testing::fuzz(&seeds, &words, |source| {
        let Ok(source) = CString::new(source) else { return };
        if let Ok(template) = template(&source, true) {
            let around = template.around(&[Role::System, Role::User, Role::Assistant, Role::User]);
            assert_eq!(around.map(|around| around.len()), Some(5));
        }
    });
}
