//! The target description: the list of registers, in XML.

use std::fmt::Write;

use crate::arch::Feature;

const TYPES: [(&str, &str); 4] = [
    (
        "core",
        r#"<flags id="i386_eflags" size="4"><field name="" start="22" end="31"/><field name="CF" start="0" end="0"/><field name="" start="1" end="1"/><field name="PF" start="2" end="2"/><field name="AF" start="4" end="4"/><field name="ZF" start="6" end="6"/><field name="SF" start="7" end="7"/><field name="TF" start="8" end="8"/><field name="IF" start="9" end="9"/><field name="DF" start="10" end="10"/><field name="OF" start="11" end="11"/></flags>"#,
    ),
    (
        "sse",
        r#"<vector id="v4f" type="ieee_single" count="4"/><vector id="v2d" type="ieee_double" count="2"/><vector id="v16i8" type="int8" count="16"/><vector id="v8i16" type="int16" count="8"/><vector id="v4i32" type="int32" count="4"/><vector id="v2i64" type="int64" count="2"/><union id="vec128"><field name="v4_float" type="v4f"/><field name="v2_double" type="v2d"/><field name="v16_int8" type="v16i8"/><field name="v8_int16" type="v8i16"/><field name="v4_int32" type="v4i32"/><field name="v2_int64" type="v2i64"/><field name="uint128" type="uint128"/></union><flags id="i386_mxcsr" size="4"><field name="IE" start="0" end="0"/><field name="DE" start="1" end="1"/><field name="ZE" start="2" end="2"/><field name="OE" start="3" end="3"/><field name="UE" start="4" end="4"/><field name="PE" start="5" end="5"/><field name="DAZ" start="6" end="6"/><field name="IM" start="7" end="7"/><field name="DM" start="8" end="8"/><field name="ZM" start="9" end="9"/><field name="OM" start="10" end="10"/><field name="UM" start="11" end="11"/><field name="PM" start="12" end="12"/><field name="FZ" start="15" end="15"/></flags>"#,
    ),
    (
        "avx512",
        r#"<vector id="v4f" type="ieee_single" count="4"/><vector id="v2d" type="ieee_double" count="2"/><vector id="v16i8" type="int8" count="16"/><vector id="v8i16" type="int16" count="8"/><vector id="v4i32" type="int32" count="4"/><vector id="v2i64" type="int64" count="2"/><union id="vec128"><field name="v4_float" type="v4f"/><field name="v2_double" type="v2d"/><field name="v16_int8" type="v16i8"/><field name="v8_int16" type="v8i16"/><field name="v4_int32" type="v4i32"/><field name="v2_int64" type="v2i64"/><field name="uint128" type="uint128"/></union><vector id="v2ui128" type="uint128" count="2"/>"#,
    ),
    ("", ""),
];

/// The whole document.
pub fn document(features: &[Feature]) -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target><architecture>i386:x86-64</architecture><osabi>GNU/Linux</osabi>",
    );
    for feature in features {
        let _ = write!(xml, "<feature name=\"{}\">", feature.name);
        let short = feature.name.rsplit('.').next().unwrap_or("");
        if let Some((_, types)) = TYPES.iter().find(|(name, _)| *name == short) {
            xml.push_str(types);
        }
        for r in &feature.registers {
            let _ = write!(
                xml,
                "<reg name=\"{}\" bitsize=\"{}\" type=\"{}\"/>",
                r.name,
                8 * r.size,
                r.kind
            );
        }
        xml.push_str("</feature>");
    }
    xml.push_str("</target>");
    xml
}
