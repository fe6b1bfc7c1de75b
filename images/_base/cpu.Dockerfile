# sparring/base:cpu (target `base`: Python, NumPy, Pillow, the helper modules) and sparring/base-torch:cpu (target
# `base-torch`: and PyTorch). images/build.sh builds both without a network, from wheels it adds to the context.
# By hand, where pip finds its packages:
#   docker build -f images/_base/cpu.Dockerfile --target base-torch -t sparring/base-torch:cpu images/_base
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS packages
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
RUN python3 -m venv /builder
COPY requirements.lock wheels* /wheels/
RUN grep -E '^(numpy|pillow)==' /wheels/requirements.lock > /small.lock \
 && /builder/bin/pip install --no-cache-dir --no-deps --no-compile --target /opt/packages -r /small.lock \
 && find /opt/packages -type d -name tests -prune -exec rm -r {} + \
 && python3 -m compileall -q -j 0 /opt/packages

FROM ${BASE_IMAGE} AS common
COPY --from=packages /opt/packages /opt/packages
ENV PYTHONPATH=/opt/sparring:/opt/packages
WORKDIR /opt/player
USER 10001:10001

FROM common AS base
COPY python/ /opt/sparring/

FROM packages AS torch-packages
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
# A sixth of the image would be the packages' own tests, and what generates PyTorch's sources.
RUN grep -vE '^(numpy|pillow)==' /wheels/requirements.lock > /torch.lock \
 && /builder/bin/pip install --no-cache-dir --no-deps --no-compile --target /opt/torch-packages -r /torch.lock \
 && find /opt/torch-packages -type d -name tests -prune -exec rm -r {} + \
 && rm -rf /opt/torch-packages/torch/test /opt/torch-packages/torch/bin/*[Tt]est* /opt/torch-packages/torch/bin/protoc* \
 && python3 -m compileall -q -j 0 -x /testing/_internal/ /opt/torch-packages

# The helper modules come last: a change to them leaves PyTorch's layer as it is.
FROM common AS base-torch
COPY --from=torch-packages /opt/torch-packages /opt/packages
COPY python/ /opt/sparring/
