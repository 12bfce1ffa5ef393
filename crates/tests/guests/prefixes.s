# relive: link=pie,static
# Odd encodings that a decoder must not trip over: redundant prefixes, long nops, high byte
# registers beside REX, fs-relative operands, 32-bit addresses, instructions that end at a
# page end, overlapping instructions.
        .text
        .globl  main
main:
        push    %rbx
        push    %r12
        sub     $8, %rsp
        mov     $2000, %r12d
again:
        .byte   0x66, 0x66, 0x90        # prefixed nops, up to fifteen bytes
        .byte   0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0
        .byte   0xf3, 0x90              # pause
        endbr64
        mov     $0x1234, %eax
        mov     %ah, %bl                # high byte
        cmp     $0x12, %bl
        jne     bad
        mov     %al, %ah
        cmp     $0x3434, %eax
        jne     bad
        mov     $0x99, %sil             # the same number with REX is another register
        movzbl  %sil, %ecx
        cmp     $0x99, %ecx
        jne     bad
        mov     %fs:0, %rax             # the thread pointer points at itself
        xor     %edx, %edx
        mov     %fs:(%rdx), %rdx        # the same with a register
        cmp     %rax, %rdx
        jne     bad
      cmp     %fs:0, %rax
        jne     bad
        bnd jmp 2f
        ud2
2:      .byte   0xf2, 0xe8, 0, 0, 0, 0  # bnd call to the next instruction
        pop     %rax
        call    3f
        jmp     4f
3:      rep ret
4:      xor     %eax, %eax              # jump into the middle of an instruction
        jmp     5f+1
5:      .byte   0xb8                    # mov imm32, eax … or inc eax; nop; nop
        inc     %eax
        nop
        nop
        cmp     $1, %eax
        jne     bad
        lea     page_end(%rip), %rax
        call    *%rax
        cmp     $77, %eax
        jne     bad
        mov     $0x100000001, %rbx      # a 32-bit address drops the upper half
        lea     (%ebx,%ebx), %rax
        cmp     $2, %rax
        jne     bad
        movabs  $0x1122334455667788, %rax
        bswap   %rax
        movabs  $0x8877665544332211, %rdx
        cmp     %rax, %rdx
        jne     bad
        dec     %r12d
        jnz     again
        lea     text(%rip), %rdi
        call    puts@PLT
        xor     %eax, %eax
        jmp     out
bad:    mov     $99, %eax
out:    add     $8, %rsp
        pop     %r12
        pop     %rbx
        ret
        .balign 4096
        .skip   4096 - 6, 0x90
page_end:
        mov     $77, %eax               # five bytes, then ret is the page's last byte
        ret
        .section .rodata
text:   .asciz  "ok"
        .section .note.GNU-stack,"",@progbits
