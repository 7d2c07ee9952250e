//! Decodes messages of MoQT and encodes them again: each line of the input is a draft and a message in hexadecimal,
//! each line of the output the message again, or why it was refused.

use std::io::{self, BufRead};

use moqtap_codec::dispatch::AnyControlMessage;
use moqtap_codec::version::DraftVersion;

fn again(line: &str) -> Result<String, String> {
    let (draft, text) = line.split_once(' ').ok_or("a draft and a message")?;
    let number = draft.parse().map_err(|_| "a draft is a number")?;
    let version = DraftVersion::from_number(number).ok_or("the draft is unknown")?;
    let bytes = hex::decode(text).map_err(|e| e.to_string())?;
    let mut rest = &bytes[..];
    let message = AnyControlMessage::decode(version, &mut rest).map_err(|e| e.to_string())?;
    if !rest.is_empty() {
        return Err(format!("{} bytes are left", rest.len()));
    }
    let mut out = Vec::new();
    message.encode(&mut out).map_err(|e| e.to_string())?;
    Ok(hex::encode(out))
}

fn main() {
    for line in io::stdin().lock().lines() {
        match again(&line.expect("standard input")) {
            Ok(text) => println!("{text}"),
            Err(e) => println!("error: {e}"),
        }
    }
}
