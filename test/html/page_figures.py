"""The figures in a page: JSON, compressed by zlib, in base64."""
import base64
import json
import re
import zlib


def unpack(text):
    return json.loads(zlib.decompress(base64.b64decode(text)))


def pack(figures):
    return base64.b64encode(zlib.compress(json.dumps(figures, separators=(",", ":")).encode())).decode()


def element(part):
    return re.compile(rf'(<script type="text/plain" id="{part}">)(.*?)(</script>)', re.DOTALL)


def of_page(page, part="data"):
    text = element(part).search(page)[2]
    return unpack(text) if text else None


def put(page, figures, part="data"):
    """The page with other figures; None: with none."""
    return element(part).sub(lambda match: match[1] + ("" if figures is None else pack(figures)) + match[3], page)
