"""Random expressions of the language: mostly well typed, of every kind of value and function."""

from __future__ import annotations

from random import Random

from devtools.cel.answers import Question
from devtools.upstream.cel.grammar import Grammar

KINDS = (
    "int", "uint", "double", "string", "bytes", "bool", "list", "map", "dyn", "optional", "duration", "timestamp",
    "quantity", "semver", "ip", "cidr", "url", "type",
)  # fmt: skip

LEAVES = {
    "int": ["0", "1", "2", "-1", "3", "9223372036854775807", "-9223372036854775808", "0x10", "4", "-7", "64",
        "1000003"],
    "uint": ["0u", "1u", "2u", "18446744073709551615u", "0xFFu"],
    "double": ["0.0", "1.0", "-1.5", "1e300", "2.0", "0.1", "-0.0", "1e-7", "12345678.9", "9007199254740993.0",
        "9223372036854775807.0", "-9223372036854775808.0", "18446744073709551615.0", "1e20", "0.5", "3.999", "5e-324",
        "123456.7", "(0.0 / 0.0)"],
    "string": [
        '"a"', '""', '"abc"', '"é"', '"1"', '"b,c"', '"1.2.3"', '"A"', r'r"\d+"', "'x y'", '"10.0.0.1"', '"%s"',
        '"1Gi"', '"😀b"', '"true"',
        '"%d|%s"', '"2020-01-01T00:00:00Z"', '"1h"', '" a\\t"', '"ǅİß"', '"aXbXc"', '"-1.5e3"', '"0x1F"',
        '"1.2.3-rc.1"', '"[a-z]+"', '"^a$"',
    ],
    "bytes": ['b"a"', 'b""', r'b"\xff"', 'b"é"'],
    "bool": ["true", "false"],
    "list": ["[]", "[1, 2, 3]", "[2, 1, 1, 2]", '["b", "", "a"]', "[[[1]], [[2, 3]]]", "[{'a': 1}, {}]", "[3, 1, 1]",
        '["a", "b"]', "[1.0, 2.0]", "[[1], []]", "[true]", "[1u]", "[dyn(1), dyn('a')]"],
    "map": ["{}", '{"a": 1}', '{"a": 1, "b": 2}', "{1: 2}", "{true: 1}", '{"a": {"b": [1]}}', "{1u: 'a'}",
        "{'a': dyn(1), 'b': dyn('x')}"],
    "dyn": ["dyn(1)", "dyn('a')", "dyn(1u)", "dyn(2.0)", "dyn(true)", "dyn(null)", "dyn([1, 2])", "dyn({'a': 1})",
        "dyn(b'a')"],
    "optional": ["optional.none()", "optional.of(1)", 'optional.of("a")', "optional.of(null)"],
    "duration": ['duration("1s")', 'duration("-1.5h")', 'duration("0s")', 'duration("1h2m3.004s")', 'duration("1ns")'],
    "timestamp": [
        'timestamp("2020-02-29T12:34:56.789Z")', "timestamp(0)", 'timestamp("1969-12-31T23:59:59-01:00")',
        'timestamp("0001-01-01T00:00:00Z")',
        'timestamp("9999-12-31T23:59:59.999999999Z")', 'timestamp("2024-03-31T01:59:59+05:30")',
    ],
    "quantity": [
        'quantity("1")', 'quantity("1Gi")', 'quantity("500m")', 'quantity("-3k")', 'quantity("0")', 'quantity("1000m")',
        'quantity("1.5Gi")',
        'quantity("2e3")', 'quantity("1.0")', 'quantity("9223372036854775807")', 'quantity("8Ei")', 'quantity("100n")',
        'quantity("1e-3")',
    ],
    "semver": ['semver("1.2.3")', 'semver("1.2.3-rc.1")', 'semver("10.0.0+b")', 'semver("v1.0", true)',
        'semver("1.2.3-rc.a")'],
    "ip": ['ip("10.0.0.1")', 'ip("::1")', 'ip("fe80::1")', 'ip("224.0.0.1")', 'ip("255.255.255.255")',
        'ip("2001:DB8::A")'],
    "cidr": ['cidr("10.0.0.0/8")', 'cidr("::/0")', 'cidr("10.1.2.3/16")', 'cidr("fe80::/10")'],
    "url": [
        'url("https://a.b:80/c%20d?x=1&x=2#f")', 'url("http://[::1]/")', 'url("/p?q")', 'url("mailto:a@b")',
        'url("http://u:p@h/a b/")',
    ],
    "type": ["int", "string", "list", "map", "bool", "double", "type", "null_type", "uint", "bytes", "optional_type",
        "net.IP"],
    "iptext": ['"1.2.3.4"', '"::1"', '"1.2.3"', '"01.2.3.4"', '"::ffff:1.2.3.4"', '"fe80::1%eth0"', '"1::2::3"',
        '"10.0.0.0/8"',
    '"::/129"', '"1.2.3.4/33"',
               '"1.2.3.256"', '"a"', '""', '"1.2.3.4.5"', '"12345::"', '":1"', '"1.2.3.0/08"', '"::ffff:0:0/96"',
               '"1:2:3:4:5:6:7:8"', '"::1.2.3.4"', '"1..2.3"'],
    "urltext": ['"http://a/b?c=d"', '"a b"', '"/a"', '"a"', '""', '"http://[::1"', '"http://a:x/"', '"%zz"', '"/%zz"',
    '"http://a/%41?%zz=1&b"', '"HTTP://A/"', '"//h/p"',
                '"http://h/?a=1;b=2&c"', '"1a://x"', '"*"', '"http://a b/"', '"http://x/é?k=é+w"', '":a"',
                '"http://a:1:2/"', '"http://a@b@c/"'],
    "format": [f"format.{name}()" for name in (
        "byte", "date", "datetime", "dns1035Label", "dns1035LabelPrefix", "dns1123Label", "dns1123LabelPrefix",
        "dns1123Subdomain", "dns1123SubdomainPrefix", "labelValue", "qualifiedName", "uri", "uuid",
    )],
    "formattext": ['"a"', '"A"', '""', '"a-"', '"-a"', '"a.b"', '"a/b"', '"a.b/c_D"', '"a/b/c"', '"1a"', '"aGVsbG8="',
        '"aGVsbG8"',
    '"2020-02-29"', '"2021-02-29"', '"é"',
                   '"2020-02-29T00:00:00Z"', '"2020-02-29T25:00:00Z"', '"2020-02-29T00:00:00.5+01:00"',
                   '"2020-02-29 00:00:00Z"', '"123e4567-e89b-12d3-a456-426614174000"',
                   '"123E4567e89b12d3a456426614174000"', '"http://a/"', '"_-="', '"YQ=="', '"YR=="', '"\\nYQ=="',
                   '"a..b"', '"a.-"', '"' + "a" * 64 + '"', '"' + "a" * 254 + '"', '"/b"', '"a/"'],
}  # fmt: skip

BRANCHES = {
    "bool": [
        "($bool && $bool)", "($bool || $bool)", "!$bool", "!($bool)", "($bool && $bool || $bool)",
        "($bool ? $bool : $bool)", "($any == $any)", "($any != $any)", "($any < $dyn)", "($dyn >= $any)",
        "($int|uint|double < $int|uint|double)", "($int|uint|double >= "
"$int|uint|double)", "($string < $string)", "($timestamp > $timestamp)", "($duration <= $duration)",
        "($any in $list|map|dyn)", "($string in ['a', 'b'])", "($dyn in [1, 2])", "$string.contains($string)",
        "$string.startsWith($string)",
        "$string.endsWith($string)", "$string.matches($string)", "matches($string, 'a|b+')", "$list|map|dyn.all(x, «x "
"$bool»)",
        "$list|map|dyn.exists(x, «x $bool»)", "$list|map.exists_one(y, «y $bool»)", "$list|map.all(k, v, «k,v $bool»)",
        "$list|map.exists(k, v, «k,v "
"$bool»)", "$list|map.existsOne(k, v, «k,v "
"$bool»)", "has($map|dyn.a)", "has($map|dyn.b)",
        "$optional.hasValue()",
        "$quantity.isLessThan($quantity)", "$quantity.isGreaterThan($quantity)", "$semver.isLessThan($semver)",
        "$semver.isGreaterThan($semver)",
        "$quantity.isInteger()", "$list|dyn|string.includes($any)", "isQuantity($string)", "isSemver($string)",
        "isSemver($string, $bool)",
        "sets.contains($list, $list)", "sets.equivalent($list, $list)", "sets.intersects($list, $list)",
        "$list.isSorted()", "bool($string|bool|dyn)",
        "(type($any) == $type)", "isIP($iptext)", "isCIDR($iptext)", "isURL($urltext)", "$cidr.containsIP($iptext)",
        "$cidr.containsIP($ip)",
        "$cidr.containsCIDR($cidr)", "$cidr.containsCIDR($iptext)", "$ip.isLoopback()", "$ip.isGlobalUnicast()",
        "$ip.isLinkLocalUnicast()",
        "$ip.isLinkLocalMulticast()", "$ip.isUnspecified()", "ip.isCanonical($iptext)",
        "$format.validate($formattext).hasValue()", "($format == $format)",
    ],
    "int": [
        "($int + $int)", "($int - $int)", "($int * $int)", "($int / $int)", "($int % $int)", "-($int)",
        "size($string|bytes|list|map|dyn)",
        "$list.size()",
        "int($int|uint|double|string|duration|timestamp|dyn)", "$string.indexOf($string)",
        "$string.lastIndexOf($string)", "$string.indexOf($string, "
"$int)", "$string.lastIndexOf($string, "
"$int)", "$timestamp.getFullYear()", "$timestamp.getMonth()",
        "$timestamp.getDate()",
        "$timestamp.getDayOfMonth()", "$timestamp.getDayOfWeek()", "$timestamp.getDayOfYear()", "$timestamp.getHours()",
        "$timestamp.getMinutes()",
        "$timestamp.getSeconds()", "$timestamp.getMilliseconds()", '$timestamp.getHours("America/New_York")',
        '$timestamp.getDate("Asia/Kolkata")',
        '$timestamp.getFullYear("-11:00")', '$timestamp.getDayOfYear("+05:30")', '$timestamp.getMinutes("UTC")',
        "$timestamp.getHours($string)", "$duration.getHours()",
        "$duration.getMinutes()", "$duration.getSeconds()", "$duration.getMilliseconds()", "$list.indexOf($any)",
        "$list.lastIndexOf($int)",
        "$list.sum()", "$list.min()", "$list.max()", "$semver.major()", "$semver.minor()", "$semver.patch()",
        "$semver.compareTo($semver)",
        "$quantity.asInteger()", "$quantity.compareTo($quantity)", "sign($quantity)", "($bool ? $int : $int)",
        "$ip.family()", "$cidr.prefixLength()",
    ],
    "uint": [
        "($uint + $uint)", "($uint - $uint)", "($uint * $uint)", "($uint / $uint)", "($uint % $uint)",
        "uint($int|uint|double|string|dyn)",
    ],
    "double": [
        "($double + $double)", "($double - $double)", "($double * $double)", "($double / $double)", "-($double)",
        "double($int|uint|double|string|dyn)", "$quantity.asApproximateFloat()",
    ],
    "string": [
        "($string + $string)", "string($int|uint|double|string|bytes|bool|duration|timestamp|dyn|ip|cidr)",
        "$string.lowerAscii()", "$string.upperAscii()",
        "$string.trim()", "$string.charAt($int)", "$string.substring($int)", "$string.substring($int, $int)",
        "$string.replace($string, $string)",
        "$string.replace($string, $string, $int)", "$list.join($string)", "$list.join()", "$string.find($string)",
        "strings.quote($string)",
        "'%s'.format([$any])", "'%s %d'.format([$any, $int|uint])", "'%.2f|%e'.format([$double, $double])",
        "'%x %b %o'.format([$int|string|bytes, $int|bool, $uint])",
        "$string.format([$any])", "$string.format($list)", "$url.getScheme()", "$url.getHost()", "$url.getHostname()",
        "$url.getPort()", "$url.getEscapedPath()",
    ],
    "bytes": ["($bytes + $bytes)", "bytes($string|bytes)"],
    "list": [
        "($list + $list)", "[$any, $any]", "[$int, $int]", "[$any]", "[?$optional, $int]", "$list|map|dyn.map(x, «x "
"$any»)",
        "$list|map|dyn.filter(y, «y $bool»)",
        "$list.map(z, «z $bool, $any»)", "$list|map.transformList(k, v, "
"«k,v $any»)", "$list.transformList(k, v, «k,v "
"$bool, $any»)",
        "($list + [$any]).sortBy(x, «x "
"$int|string|dyn»)", "$list.sort()", "$list.distinct()", "$list.reverse()", "$list.flatten()",
        "$list.flatten($int)", "$list.slice($int, $int)", "lists.range(0)", "lists.range(3)", "lists.range($int % 9)",
        "$string.split($string)",
        "$string.split($string, $int)", "$string.findAll($string)", "$string.findAll($string, $int)",
        "optional.unwrap([$optional, $optional])",
        "[$optional].unwrapOpt()", "$format.validate($formattext).orValue([])",
    ],
    "map": [
        "{$int|string|bool|uint: $any}", "{$string: $any, $string: $any}", "{$any: $any}", "{?$string: $optional}",
        "$list|map.transformMap(k, v, «k,v $any»)",
        "$list|map.transformMap(k, v, «k,v "
"$bool, $any»)", "$list|map.transformMapEntry(k, v, «k,v "
"{$string: $any}»)", "$url.getQuery()",
    ],
    "dyn": [
        "dyn($any)", "$map|dyn.a", "$map|dyn.b", "$list|map|dyn[$int|string|dyn]", "($dyn + $dyn)", "($dyn - $dyn)",
        "($dyn * $any)", "$optional.value()",
        "$optional.orValue($any)", "cel.bind(w, $any, «w $any»)", "cel.bind(w, $any, «w $bool»)",
        "($bool|dyn ? $any : $any)", "$list|dyn.sum()", "$list|dyn.max()",
    ],
    "optional": [
        "optional.of($any)", "optional.ofNonZeroValue($any)", "$map|dyn|optional.?a", "$map|dyn|optional.?b",
        "$list|map|dyn|optional[?$int|string]",
        "$optional.or($optional)", "$optional.optMap(x, «x $any»)", "$optional.optFlatMap(y, «y "
"$optional»)", "$list.first()",
        "$list.last()", "$optional.a",
        "format.named('uuid')",
    ],
    "duration": ["($duration + $duration)", "($duration - $duration)", "($timestamp - $timestamp)",
        "duration($string|duration)"],
    "timestamp": ["($timestamp + $duration)", "($timestamp - $duration)", "($duration + $timestamp)",
        "timestamp($string|int|timestamp)"],
    "quantity": ["quantity($string)", "$quantity.add($quantity|int)", "$quantity.sub($quantity|int)"],
    "semver": ["semver($string)", "semver($string, $bool)"],
    "ip": ["ip($iptext)", "$cidr.ip()"],
    "cidr": ["cidr($iptext)", "$cidr.masked()"],
    "url": ["url($urltext)"],
    "type": ["type($any)"],
}  # fmt: skip

LANGUAGE = Grammar(LEAVES, BRANCHES, KINDS)
_LONGEST = 300


def expression(random: Random) -> Question:
    """A question in mode "language"."""
    while True:
        text = LANGUAGE.draw(random, random.choice(KINDS), random.randint(1, 3))
        if len(text) < _LONGEST:
            return {"expression": text, "mode": "language"}
