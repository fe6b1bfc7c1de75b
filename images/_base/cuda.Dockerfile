# sparring/base-torch:cuda: sparring/base with PyTorch's CUDA build and the libraries it needs; the driver is the host's.
# images/build.sh --cuda builds it without a network, from wheels it adds to the context.
ARG BASE=sparring/base:cpu

FROM ${BASE} AS packages
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
USER 0
RUN python3 -m venv /builder
COPY requirements.cuda.lock wheels* /wheels/
# Without PyTorch's own tests, as on CPUs.
RUN /builder/bin/pip install --no-cache-dir --no-deps --target /opt/torch-packages -r /wheels/requirements.cuda.lock \
 && cd /opt/torch-packages/torch && rm -rf test bin/*[Tt]est* bin/protoc*

FROM ${BASE}
COPY --from=packages /opt/torch-packages /opt/packages
