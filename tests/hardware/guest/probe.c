/*
 * The guest of the hardware lab: lists the PCI functions that it sees, a line each,
 *
 *     pci 00:02.0 1234:11e8 class=00ff00
 *
 * and uses those that it knows. boot.S starts it and puts what it says onto the disk. QEMU's "edu" device
 * (https://www.qemu.org/docs/master/specs/edu.html): reads its identification, inverts a value, and copies a pattern
 * into the device and back by DMA, which works only where the addresses that the guest programs are translated by the
 * IOMMU:
 *
 *     edu 00:02.0 id=ok invert=ok dma=ok
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

#define OUTPUT ((volatile char *)0x30000)
#define OUTPUT_LENGTH 16384u

static inline void out32(u16 port, u32 value) { __asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port)); }
static inline u32 in32(u16 port) { u32 value; __asm__ volatile("inl %1, %0" : "=a"(value) : "Nd"(port)); return value; }

static void put(char letter)
{
    static u32 length;

    if (length < OUTPUT_LENGTH)
        OUTPUT[length++] = letter;
}

static void text(const char *letters)
{
    while (*letters)
        put(*letters++);
}

static void hexadecimal(u32 value, int digits)
{
    while (digits--)
        put("0123456789abcdef"[value >> (4 * digits) & 15]);
}

static u32 address(u32 bus, u32 slot, u32 function) { return 0x80000000u | bus << 16 | slot << 11 | function << 8; }

static u32 read_config(u32 where, u32 offset)
{
    out32(0xcf8, where | offset);
    return in32(0xcfc);
}

static void write_config(u32 where, u32 offset, u32 value)
{
    out32(0xcf8, where | offset);
    out32(0xcfc, value);
}

static void name(u32 where)
{
    hexadecimal(where >> 16 & 255, 2);
    put(':');
    hexadecimal(where >> 11 & 31, 2);
    put('.');
    hexadecimal(where >> 8 & 7, 1);
    put(' ');
}

/* --- edu --- */

#define EDU_ID 0x00
#define EDU_INVERT 0x04
#define EDU_DMA_SOURCE 0x80
#define EDU_DMA_TARGET 0x88
#define EDU_DMA_COUNT 0x90
#define EDU_DMA_COMMAND 0x98
#define EDU_BUFFER 0x40000u
#define EDU_LENGTH 2048u /* less than all of the buffer: QEMU 7.2 refuses its last byte */
#define RUN 1u
#define FROM_DEVICE 2u

static u8 sent[EDU_LENGTH] __attribute__((aligned(4096)));
static u8 received[EDU_LENGTH] __attribute__((aligned(4096)));

static int copied(volatile u32 *device, u32 source, u32 target, u32 direction)
{
    device[EDU_DMA_SOURCE / 4] = source;
    device[EDU_DMA_TARGET / 4] = target;
    device[EDU_DMA_COUNT / 4] = EDU_LENGTH;
    device[EDU_DMA_COMMAND / 4] = RUN | direction;
    for (u32 waited = 0; waited < 200000000u; waited++)
        if (!(device[EDU_DMA_COMMAND / 4] & RUN))
            return 1;
    return 0;
}

static void result(const char *what, int good)
{
    text(what);
    text(good ? "=ok " : "=failed ");
}

static void use_edu(u32 where)
{
    volatile u32 *device = (volatile u32 *)(read_config(where, 0x10) & ~15u);
    int same = 1;

    write_config(where, 0x04, read_config(where, 0x04) | 6); /* memory and bus mastering */
    text("edu ");
    name(where);
    result("id", (device[EDU_ID / 4] & 0xffff) == 0x00ed);
    device[EDU_INVERT / 4] = 0x12345678;
    result("invert", device[EDU_INVERT / 4] == ~0x12345678u);
    for (u32 index = 0; index < EDU_LENGTH; index++) {
        sent[index] = (u8)(index * 7 + 3);
        received[index] = 0;
    }
    same = copied(device, (u32)sent, EDU_BUFFER, 0) && copied(device, EDU_BUFFER, (u32)received, FROM_DEVICE);
    for (u32 index = 0; same && index < EDU_LENGTH; index++)
        same = *(volatile u8 *)&received[index] == sent[index];
    result("dma", same);
    put('\n');
}

/* --- all functions --- */

static void look_at(u32 where)
{
    u32 ids = read_config(where, 0x00), class = read_config(where, 0x08) >> 8;

    text("pci ");
    name(where);
    hexadecimal(ids & 0xffff, 4);
    put(':');
    hexadecimal(ids >> 16, 4);
    text(" class=");
    hexadecimal(class, 6);
    put('\n');
    if (ids == 0x11e81234)
        use_edu(where);
}

/* The first function of the image: boot.S calls its first byte. */
__attribute__((section(".first"))) void probe(void)
{
    for (u32 index = 0; index < OUTPUT_LENGTH; index++)
        OUTPUT[index] = 0;
    text("probe begins\n");
    for (u32 bus = 0; bus < 64; bus++)
        for (u32 slot = 0; slot < 32; slot++)
            for (u32 function = 0; function < 8; function++) {
                u32 where = address(bus, slot, function);
                if ((read_config(where, 0) & 0xffff) == 0xffff) {
                    if (!function)
                        break;
                    continue;
                }
                look_at(where);
                if (!function && !(read_config(where, 0x0c) >> 16 & 0x80))
                    break;
            }
    text("probe ends\n");
}
