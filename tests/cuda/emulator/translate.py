"""Turn a kernel file into C++ that g++ compiles with tests/cuda/emulator/cuda_runtime.h: translate.py FROM.cu TO.cpp

This script rewrites only the syntax that no macro can. Line numbers stay, so that a compiler or a sanitizer names the
right line of the kernel file.

    kernel<<<grid, block, ...>>>(args)      becomes a call that takes the kernel as a function
    extern __shared__ T name[];             a reference to the pointer to the running block's dynamic shared memory
    __shared__ T name[n];                   a reference to shared memory that grid.cpp allocates
    const __grid_constant__ T name          a reference: no thread makes a copy
    #pragma unroll                          GCC's
    __global__ ... name(...) {              gets a call that tells a launch its name, address and __launch_bounds__
"""
import re
import sys


def closing(text, at):
    """The index of the bracket that closes the one at text[at]."""
    pair = {"(": ")", "{": "}", "<": ">", "[": "]"}
    close, depth = pair[text[at]], 0
    for i in range(at, len(text)):
        depth += (text[i] == text[at]) - (text[i] == close)
        if depth == 0:
            return i
    raise SystemExit(f"translate.py: nothing closes {text[at:at + 40]!r}")


def without_comments(text):
    """The text with blanks for comments, which would be read as code; strings stay."""
    def blank(found):
        return found.group() if found.group()[0] == '"' else re.sub(r"[^\n]", " ", found.group())
    return re.sub(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*', blank, text, flags=re.DOTALL)


def launches(text):
    launch = re.compile(r"([A-Za-z_]\w*(?:<[^<>;(){}]*>)?)\s*<<<")
    while found := launch.search(text):
        end = text.index(">>>", found.end())
        kernel, config = found.group(1), text[found.end():end]
        opens = re.compile(r"\s*\(").match(text, end + 3)
        if not opens:
            raise SystemExit(f"translate.py: no arguments behind {kernel}<<<{config}>>>")
        rest = text[opens.end():]
        comma = "" if rest.lstrip().startswith(")") else ", "
        gap = text[end + 3:opens.end() - 1]
        text = (f"{text[:found.start()]}cuda_configured({config}).launch{gap}([=](const auto &...cuda_arguments) "
                f"{{ {kernel}(cuda_arguments...); }}{comma}{rest}")
    return text


def kernels_named(text):
    out, at = [], 0
    for found in re.finditer(r"__global__", text):
        if found.start() < at:
            continue
        template = re.search(r"template\s*<([^<>]*)>\s*(?:static\s+|inline\s+)*$", text[:found.start()])
        i, bounds = found.end(), 0
        while True:  # void, attributes with arguments, then the name
            word = re.compile(r"\s*(\w+)\s*").match(text, i)
            i = word.end()
            if word.group(1) in ("void", "static", "inline"):
                continue
            end = closing(text, i)
            if not word.group(1).startswith("__"):
                break
            if word.group(1) == "__launch_bounds__":
                bounds = text[i + 1:end].split(",")[0].strip()
            i = end + 1
        body = re.compile(r"\s*([{;])").match(text, end + 1)
        if body.group(1) == ";":
            continue
        names = [p.split("=")[0].split()[-1].lstrip(".") for p in template.group(1).split(",")] if template else []
        entry = word.group(1) + (f"<{', '.join(names)}>" if names else "")
        out.append(text[at:body.end()])
        out.append(f' if (cuda_kernel_named((const void *)&{entry}, "{word.group(1)}", {bounds})) return;')
        at = body.end()
    return "".join(out) + text[at:]


def translate(text):
    text = without_comments(text)
    text = re.sub(r"#pragma unroll[ \t]*(\d*)", lambda m: f"#pragma GCC unroll {m.group(1) or 64}", text)
    text = re.sub(r"const __grid_constant__ ((?:struct )?\w+) (\w+)", r"const \1 &\2", text)
    text = re.sub(r"extern __shared__ (?:__align__\(\d+\) )?([\w ]+?) (\w+)\[\];",
                  r"static \1 *const &\2 = (\1 *const &)cuda_dynamic_shared;", text)
    text = re.sub(r"__shared__ (?:__align__\(\d+\) )?([\w ]+?) (\w+)((?:\[[^\]]*\])*);",
                  r"static auto &\2 = cuda_static_shared<\1\3>();", text)
    return launches(kernels_named(text))


if __name__ == "__main__":
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        translated = translate(file.read())
    with open(target, "w", encoding="utf-8") as file:
        file.write(f'#line 1 "{source}"\n{translated}')
