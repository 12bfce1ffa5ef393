# relive: link=pie,nopie
# inc, dec, lea, loop, jrcxz and mov leave CF alone, so a carry chain runs through a loop
# whose back edge is a tick site.
        .text
        .globl  main
main:
        push    %rbx
        push    %rbp
        push    %r12
        mov     $3000, %r12d
again:
        # Fill a[0..63] with ones, b[0..63] with zero but b[0] = 1; a + b carries all the way.
        lea     a(%rip), %rdi
        mov     $-1, %rax
        mov     $64, %ecx
        cld
        rep stosq
        lea     b(%rip), %rdi
        xor     %eax, %eax
        mov     $64, %ecx
        rep stosq
        movq    $1, b(%rip)

        lea     a(%rip), %rsi
        lea     b(%rip), %rdi
        xor     %edx, %edx              # clears CF
        mov     $64, %ebp
1:      mov     (%rsi,%rdx,8), %rax
        adc     (%rdi,%rdx,8), %rax
        mov     %rax, (%rsi,%rdx,8)
        inc     %rdx
        dec     %ebp
        jnz     1b
        jnc     bad                     # carry out of the top
        lea     a(%rip), %rdi
        xor     %eax, %eax
        mov     $64, %ecx
        repe    scasq
        jne     bad

        # The same with loop, which reads no flag and writes none.
        lea     a(%rip), %rsi
        mov     $64, %ecx
        stc
2:      sbbq    $0, (%rsi)
        lea     8(%rsi), %rsi
        loop    2b
        jnc     bad
        cmpq    $-1, a+504(%rip)
        jne     bad

        # A jrcxz loop, and loopne with its ZF.
        mov     $10, %ecx
        stc
3:      jrcxz   4f
        lea     -1(%rcx), %rcx
        jmp     3b
4:      jnc     bad
        mov     $100, %ecx
        xor     %eax, %eax
5:      inc     %eax
        cmp     $40, %eax
        loopne  5b
        cmp     $60, %ecx
        jne     bad
        mov     $100, %ecx
6:      cmp     %eax, %eax
        loope   6b
        test    %ecx, %ecx
        jnz     bad
        mov     $3, %rcx
        bts     $32, %rcx               # jecxz sees the low half only
        mov     $0, %edx
7:      inc     %edx
        addr32 loop 7b
        cmp     $3, %edx
        jne     bad
        jecxz   8f
        jmp     bad
8:      dec     %r12d
        jnz     again
        lea     text(%rip), %rdi
        xor     %eax, %eax
        call    puts@PLT
        xor     %eax, %eax
        jmp     out
bad:    mov     $99, %eax
out:    pop     %r12
        pop     %rbp
        pop     %rbx
        ret
        .section .rodata
text:   .asciz  "ok"
        .bss
        .balign 64
a:      .skip   512
b:      .skip   512
        .section .note.GNU-stack,"",@progbits
