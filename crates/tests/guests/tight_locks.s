# relive: link=static,pie
# Atomic instructions beside plain ones on the same cell, lock prefixes with every
# addressing mode, and compare-exchange loops whose back edge carries flags.
        .text
        .globl  main
main:
        push    %rbx
        push    %r12
        sub     $40, %rsp
        mov     $10000, %r12d
again:
        movq    $0, (%rsp)
        movq    $0, 8(%rsp)
        mov     $3, %ecx
        lock addq $5, (%rsp)
        lock orl  $0x100, 4(%rsp)
        lock xorb $0x80, 3(%rsp,%rcx)   # the byte at 6
        lock decq 8(%rsp)
        lock negq 8(%rsp)
        cmpq    $1, 8(%rsp)
        jne     bad
        mov     (%rsp), %rax
        mov     $0x0080010000000005, %rdx
        cmp     %rdx, %rax
        jne     bad
1:      mov     (%rsp), %rax            # fetch-max by compare-exchange
        lea     1(%rax), %rbx
        lock cmpxchg %rbx, (%rsp)
        jne     1b
        mov     $1, %eax
        xchg    %al, (%rsp)
        cmp     $6, %al
        jne     bad
        mov     $-1, %rax
        lock xadd %rax, 8(%rsp)
        cmp     $1, %rax
        jne     bad
        cmpq    $0, 8(%rsp)
        jne     bad
        lock btsq $40, 8(%rsp)
        jc      bad
        lock btrq $40, 8(%rsp)
        jnc     bad
        mfence
        dec     %r12d
        jnz     again
        lea     text(%rip), %rdi
        call    puts@PLT
        xor     %eax, %eax
        jmp     out
bad:    mov     $99, %eax
out:    add     $40, %rsp
        pop     %r12
        pop     %rbx
        ret
        .section .rodata
text:   .asciz  "ok"
        .section .note.GNU-stack,"",@progbits
