//! What bad kernels get: each file of `tests/ui` with the errors that it must bring, word for word.

#[test]
fn errors_stand_on_the_users_tokens() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
