from array import array
from ottla.hookspecs import hookimpl
from ottla.interfaces import ColumnsKind, Encoded
from ottla.protocol.primitives import varint
class ObjectColumns:
    def __init__(self, limit):
        self.limit = limit; self.k = []; self.v = []; self.h = []; self.t = []; self.size = 0; self.f = None
    def append(self, key, value, headers, ts):
        s = (len(key) if key is not None else 0) + (len(value) if value is not None else 0) + 21 + sum(len(a)*4+len(b or b"")+10 for a, b in headers)
        if self.v and self.size + s > self.limit: return None
        self.size += s
        self.k.append(key); self.v.append(value); self.h.append(headers); self.t.append(ts)
        return len(self.v) - 1
    def size_estimate(self): return self.size
    def facts(self, i):
        if self.f: return tuple(a[i] for a in self.f)
        return self.t[i], -1 if self.k[i] is None else len(self.k[i]), -1 if self.v[i] is None else len(self.v[i])
    def encode(self, magic):
        out = []; first = self.t[0]
        for i, (k, v, h, t) in enumerate(zip(self.k, self.v, self.h, self.t)):
            b = b"\0" + varint(t - first) + varint(i) + (varint(-1) if k is None else varint(len(k)) + k) + (varint(-1) if v is None else varint(len(v)) + v) + varint(len(h))
            for a, c in h:
                a = a.encode(); b += varint(len(a)) + a + (varint(-1) if c is None else varint(len(c)) + c)
            out.append(varint(len(b))); out.append(b)
        n = len(self.v); mx = max(self.t)
        self.f = (array("q", self.t), array("i", [-1 if x is None else len(x) for x in self.k]), array("i", [-1 if x is None else len(x) for x in self.v]))
        self.k = self.v = self.h = self.t = ()
        return Encoded(chunks=[b"".join(out)], first_timestamp=first, max_timestamp=mx, count=n)
class E:
    priority = 0
    def columns(self, kind, limit): return ObjectColumns(limit) if kind is ColumnsKind.OBJECTS else None
@hookimpl
def ottla_encoder(config): return E()
