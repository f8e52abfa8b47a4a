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
 *
 * An NVMe controller: says whether the first block of its first namespace has the marker, and writes it there,
 *
 *     nvme 00:03.0 ready=ok marker=absent wrote=ok
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

static u8 pattern[EDU_LENGTH] __attribute__((aligned(4096)));
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
        pattern[index] = (u8)(index * 7 + 3);
        received[index] = 0;
    }
    same = copied(device, (u32)pattern, EDU_BUFFER, 0) && copied(device, EDU_BUFFER, (u32)received, FROM_DEVICE);
    for (u32 index = 0; same && index < EDU_LENGTH; index++)
        same = *(volatile u8 *)&received[index] == pattern[index];
    result("dma", same);
    put('\n');
}

/* --- NVMe --- */

#define NVME_CLASS 0x010802u
#define NVME_CONFIGURATION 0x14
#define NVME_STATUS 0x1c
#define NVME_ADMIN_LENGTHS 0x24
#define NVME_ADMIN_COMMANDS 0x28
#define NVME_ADMIN_ANSWERS 0x30
#define NVME_DOORBELLS 0x1000 /* of a queue's commands at 8 * number; that of its answers isn't needed */
#define ENABLED 0x00460001u /* commands of 64 bytes, answers of 16 */
#define LENGTH 8u /* of each queue: more than are ever sent, so that none wraps */
#define CREATE_COMMANDS 1u
#define CREATE_ANSWERS 5u
#define WRITE 1u
#define READ 2u
#define MARKER 0x4d41524bu

#define PAGE(number) (0x40000u + (number) * 4096u)
#define COMMANDS(queue) PAGE(2 * (queue)) /* queue 0 is for administration, 1 for reading and writing */
#define ANSWERS(queue) PAGE(2 * (queue) + 1)
#define BLOCK PAGE(4)
#define PAGES 5u

static volatile u32 *nvme;
static u32 sent[2];

static int is_ready(u32 wanted)
{
    for (u32 waited = 0; waited < 2000000u; waited++)
        if ((nvme[NVME_STATUS / 4] & 1) == wanted)
            return 1;
    return 0;
}

/* Sends a command and waits for its answer: whether it succeeded. */
static int done(u32 queue, u32 operation, u32 namespace, u32 memory, u32 word10, u32 word11)
{
    volatile u32 *command = (volatile u32 *)(COMMANDS(queue) + 64 * sent[queue]);
    volatile u32 *answer = (volatile u32 *)(ANSWERS(queue) + 16 * sent[queue]);

    command[0] = operation | sent[queue] << 16;
    command[1] = namespace;
    command[6] = memory;
    command[10] = word10;
    command[11] = word11;
    nvme[(NVME_DOORBELLS + 8 * queue) / 4] = ++sent[queue];
    for (u32 waited = 0; waited < 200000000u; waited++)
        if (answer[3] & 0x10000)
            return !(answer[3] >> 17);
    return 0;
}

static int started(void)
{
    nvme[NVME_CONFIGURATION / 4] = 0;
    if (!is_ready(0))
        return 0;
    nvme[NVME_ADMIN_LENGTHS / 4] = (LENGTH - 1) << 16 | (LENGTH - 1);
    nvme[NVME_ADMIN_COMMANDS / 4] = COMMANDS(0);
    nvme[NVME_ADMIN_COMMANDS / 4 + 1] = 0;
    nvme[NVME_ADMIN_ANSWERS / 4] = ANSWERS(0);
    nvme[NVME_ADMIN_ANSWERS / 4 + 1] = 0;
    nvme[NVME_CONFIGURATION / 4] = ENABLED;
    return is_ready(1) && done(0, CREATE_ANSWERS, 0, ANSWERS(1), (LENGTH - 1) << 16 | 1, 1) &&
           done(0, CREATE_COMMANDS, 0, COMMANDS(1), (LENGTH - 1) << 16 | 1, 1 << 16 | 1);
}

static void use_nvme(u32 where)
{
    volatile u32 *block = (volatile u32 *)BLOCK;
    int good;

    nvme = (volatile u32 *)(read_config(where, 0x10) & ~15u);
    write_config(where, 0x04, read_config(where, 0x04) | 6);
    for (volatile u32 *word = (volatile u32 *)PAGE(0); word < (volatile u32 *)PAGE(PAGES); word++)
        *word = 0;
    sent[0] = sent[1] = 0;
    text("nvme ");
    name(where);
    good = started();
    result("ready", good);
    if (good && done(1, READ, 1, BLOCK, 0, 0)) {
        text(*block == MARKER ? "marker=present " : "marker=absent ");
        *block = MARKER;
        good = done(1, WRITE, 1, BLOCK, 0, 0);
        *block = 0;
        result("wrote", good && done(1, READ, 1, BLOCK, 0, 0) && *block == MARKER);
    }
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
    if (class == NVME_CLASS)
        use_nvme(where);
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
