# relive: link=pie,static
# Arithmetic flags travel through call and ret in both directions: no compiler does this,
# hand-written bignum code does.
        .text
        .globl  main
main:
        push    %rbx
        push    %r12
        sub     $8, %rsp
        mov     $20000, %r12d
again:
        # 256-bit add, one limb per called function; CF lives across each call and ret.
        mov     $-1, %rax
        mov     $-1, %rbx
        mov     $-1, %rcx
        mov     $0x7fffffffffffffff, %rdx
        add     $1, %rax
        call    limb_rbx
        call    limb_rcx
        call    limb_rdx
        jno     bad                     # OF of the last limb came back through ret
        jc      bad
        test    %rax, %rax
        jnz     bad
        test    %rbx, %rbx
        jnz     bad
        test    %rcx, %rcx
        jnz     bad
        bt      $63, %rdx
        jnc     bad

        # A borrow set by the callee is used by the caller after ret.
        xor     %eax, %eax
        call    set_carry
        sbb     $0, %rax
        cmp     $-1, %rax
        jne     bad
        call    clear_carry
        adc     $0, %rax
        cmp     $-1, %rax
        jne     bad

        # ZF through an indirect call, PF through a tail jump, SF through a conditional call.
        lea     set_zero(%rip), %rax
        call    *%rax
        jnz     bad
        cmp     %eax, %eax
        call    keep_all
        jne     bad
        call    tail_parity
        jnp     bad
        mov     $-5, %ecx
        test    %ecx, %ecx
        call    keep_all
        jns     bad

        # All six flags at once, through an indirect jump.
        mov     $0xd5, %eax             # SF ZF AF PF CF
        mov     %al, %ah
        sahf
        lea     1f(%rip), %rdx
        jmp     *%rdx
        ud2
1:      lahf
        cmp     $0xd7, %ah              # bit 1 reads as one
        jne     bad

        # Through ret imm16 and through a pushed return address.
        push    $7
        stc
        call    ret_imm
        jnc     bad
        lea     2f(%rip), %rdx
        push    %rdx
        clc
        ret
        ud2
2:      jc      bad
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

limb_rbx: adc   $0, %rbx
        ret
limb_rcx: adc   $0, %rcx
        ret
limb_rdx: adc   $0, %rdx
        ret
set_carry: stc
        ret
clear_carry: clc
        ret
set_zero: cmp   %rsp, %rsp
        ret
keep_all: mov   %rdx, %r8
        lea     1(%r8), %r9
        ret
tail_parity:
        mov     $3, %edx
        test    %edx, %edx
        jmp     keep_all
ret_imm:
        mov     8(%rsp), %rdx           # the pushed 7
        ret     $8
        .section .rodata
text:   .asciz  "ok"
        .section .note.GNU-stack,"",@progbits
