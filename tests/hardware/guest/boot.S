# The first sector of the probe's disk: loads the probe, runs it in protected mode, writes what it said to the disk from sector 2048 on,
# and powers off (q35's ACPI port). So it needs of its VM a bootable disk, and no console.
    .set LOADED, 0x10000                # where probe.c is linked to
    .set PROBE_SECTORS, 32
    .set SAID, 0x30000                  # what it said: OUTPUT of probe.c
    .set SAID_SECTORS, 32
    .set SAID_AT, 2048
    .set SHUTDOWN_PORT, 0x604
    .set SHUTDOWN_VALUE, 0x2000

    .code16
    .globl _start
_start:
    ljmp $0, $1f
1:  cli
    xor %ax, %ax
    mov %ax, %ds
    mov %ax, %ss
    mov $0x7c00, %sp
    sti
    mov %dl, drive
    mov $0x42, %ah                      # extended read
    mov $reading, %si
    int $0x13
    jc off
    cli
    lgdt descriptors
    mov %cr0, %eax
    or $1, %al
    mov %eax, %cr0
    ljmp $0x08, $protected

    .code32
protected:
    mov $0x10, %ax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    mov $0x90000, %esp
    mov $LOADED, %eax
    call *%eax
    ljmp $0x18, $back

    .code16
back:
    mov $0x20, %ax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    mov %cr0, %eax
    and $0xfe, %al
    mov %eax, %cr0
    ljmp $0, $real
real:
    xor %ax, %ax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    mov $0x7c00, %sp
    sti
    mov drive, %dl
    mov $0x4300, %ax                    # extended write
    mov $writing, %si
    int $0x13
off:
    mov $SHUTDOWN_PORT, %dx
    mov $SHUTDOWN_VALUE, %ax
    out %ax, %dx
    cli
2:  hlt
    jmp 2b

drive: .byte 0
    .align 4
reading: .byte 16, 0
    .word PROBE_SECTORS, 0, LOADED >> 4
    .quad 1
writing: .byte 16, 0
    .word SAID_SECTORS, 0, SAID >> 4
    .quad SAID_AT
    .align 8
table:
    .quad 0
    .quad 0x00cf9a000000ffff            # 32-bit code, flat
    .quad 0x00cf92000000ffff            # 32-bit data, flat
    .quad 0x00009a000000ffff            # 16-bit code
    .quad 0x000092000000ffff            # 16-bit data
descriptors: .word . - table - 1
    .long table

    .org 510
    .word 0xaa55
