//! Each form of the assembler, checked with a disassembler.

use super::*;
use iced_x86::{Decoder, DecoderOptions, FastFormatter};
use relive_host::context::LANES;

fn text(f: impl FnOnce(&mut Asm)) -> Vec<String> {
    let mut asm = Asm::new();
    asm.start(0x4000_0000);
    f(&mut asm);
    let mut formatter = FastFormatter::new();
    Decoder::with_ip(64, &asm.buf, 0x4000_0000, DecoderOptions::NONE)
        .iter()
        .map(|insn| {
            let mut s = String::new();
            formatter.format(&insn, &mut s);
            s
        })
        .collect()
}

#[test]
fn forms_are_what_they_say() {
    let spill = off::SPILL_RCX;
    assert_eq!(
        text(|a| a.store(spill, 1)),
        [format!("mov gs:[{spill:X}h],rcx")]
    );
    assert_eq!(
        text(|a| a.load(14, spill)),
        [format!("mov r14,gs:[{spill:X}h]")]
    );
    assert_eq!(text(|a| a.mov_imm64(9, 0x1234)), ["mov r9,1234h"]);
    assert_eq!(text(|a| a.add_rcx(-0x10)), ["lea rcx,[rcx-10h]"]);
    assert_eq!(text(|a| a.add_rsp(0x10)), ["lea rsp,[rsp+10h]"]);
    for (base, index, form) in [
        (Some(4), None, "rsp"),
        (Some(5), Some((9, 3)), "rbp+r9*8"),
        (Some(12), Some((13, 0)), "r12+r13"),
        (Some(13), Some((12, 1)), "r13+r12*2"),
        (None, Some((1, 2)), "rcx*4"),
    ] {
        let expected = format!("lea rcx,[{form}-8h]");
        assert_eq!(text(|a| a.lea_rcx(base, index, -8)), [expected]);
    }
    assert_eq!(
        text(|a| a.load_word_rcx(spill)),
        [format!("movzx ecx,word ptr gs:[{spill:X}h]")]
    );
    let forms = [
        "movzx ecx,word ptr [rcx+1000h]",
        "mov ecx,[rcx+1000h]",
        "mov rcx,[rcx+1000h]",
    ];
    for (n, form) in [2, 4, 8].into_iter().zip(forms) {
        assert_eq!(text(|a| a.load_filter_rcx(0x1000, n)), [form]);
    }
    assert_eq!(text(|a| a.cmp_rcx(0x1234)), ["cmp rcx,1234h"]);
    assert_eq!(
        text(|a| a.store_imm(spill, 0x1234)),
        [format!("mov qword ptr gs:[{spill:X}h],1234h")]
    );
    assert_eq!(text(|a| a.push_imm(0x1234)), ["push 1234h"]);
    assert_eq!(text(|a| a.push_at(0x1234)), ["push qword ptr [1234h]"]);
    let (target, site) = (off::TARGET, off::SITE);
    assert_eq!(
        text(|a| a.hash_target(0x77)),
        [
            format!("mov gs:[{target:X}h],rcx"),
            format!("mov dword ptr gs:[{site:X}h],77h"),
            "mov ecx,0h".to_owned(),
            format!("crc32 rcx,qword ptr gs:[{target:X}h]"),
            "movzx ecx,cx".to_owned(),
        ]
    );
    assert_eq!(text(Asm::add_rdx_to_rcx), ["lea rcx,[rcx+rdx]"]);
    assert_eq!(
        text(|a| a.jmp_table(-8)),
        ["jmp qword ptr [rcx*8+5FFFFFF8h]"]
    );
    assert_eq!(text(|a| a.jmp(0x4000_1000)), ["jmp 40001000h"]);
    assert_eq!(text(|a| a.jcc(5, 0x4000_1000)), ["jne 40001000h"]);
    assert_eq!(text(|a| a.jrcxz(0x4000_0010)), ["jrcxz 40000010h"]);
    assert_eq!(text(Asm::loop_into_load), ["loop 40000003h"]);
    assert_eq!(
        text(|a| a.dec_lane(off::LANES + 8)),
        [format!("dec qword ptr gs:[{:X}h]", off::LANES + 8)]
    );
    assert_eq!(
        text(|a| a.sub_lane(off::LANES + 8, 9)),
        [format!("sub qword ptr gs:[{:X}h],9h", off::LANES + 8)]
    );
    assert_eq!(
        text(|a| a.add_lane(off::LANES + 8, 9)),
        [format!("add qword ptr gs:[{:X}h],9h", off::LANES + 8)]
    );
    let forward = text(|a| {
        let jump = a.jcc_ahead(5);
        a.add_lane(off::LANES, 1);
        assert_eq!(a.buf.len() as u32, JCC_BYTES + ADD_LANE_BYTES);
        a.lead(jump, a.here());
    });
    assert_eq!(forward[0], "jne 40000010h");
    let ahead = text(|a| {
        let skip = a.jump_ahead();
        a.restore_rcx();
        a.land(skip);
    });
    assert_eq!(ahead[0], "jmp 4000000Bh");
}

#[test]
fn the_flag_free_tick_is_the_one_the_signal_handler_knows() {
    use relive_host::signal::tick_store;
    let stored_to = |offset| {
        let mut asm = Asm::new();
        asm.start(0);
        asm.store(offset, RCX);
        tick_store(&asm.buf)
    };
    for lane in 0..LANES {
        assert_eq!(stored_to(off::LANES + 8 * lane as i32), Some(lane));
    }
    assert_eq!(stored_to(off::LANES + 8 * LANES as i32), None);
    assert_eq!(stored_to(off::SPILL_RCX), None);
}

#[test]
fn without_its_prefix_a_load_faults() {
    for offset in (0..LANES as i32)
        .map(|n| off::LANES + 8 * n)
        .chain([off::SPILL_RCX])
    {
        let mut asm = Asm::new();
        asm.start(0);
        asm.load(RCX, offset);
        let mut decoder = Decoder::new(64, &asm.buf[1..], DecoderOptions::NONE);
        let insn = decoder.decode();
        assert_eq!(insn.to_string(), format!("mov rcx,[{offset:X}h]"));
        assert!(!relive_host::layout::guest_may_map(
            insn.memory_displacement64()
        ));
        assert!(!decoder.can_decode());
    }
}

#[test]
fn exits_have_one_length() {
    let mut asm = Asm::new();
    asm.start(0);
    asm.exit(0x1234_5678);
    assert_eq!(asm.buf.len() as u32, EXIT_BYTES);
}
