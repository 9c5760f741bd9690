from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ColumnMetadata(_message.Message):
    __slots__ = ("encoding", "pages", "buffer_offsets", "buffer_sizes")
    class Page(_message.Message):
        __slots__ = ("buffer_offsets", "buffer_sizes", "length", "encoding", "priority")
        BUFFER_OFFSETS_FIELD_NUMBER: _ClassVar[int]
        BUFFER_SIZES_FIELD_NUMBER: _ClassVar[int]
        LENGTH_FIELD_NUMBER: _ClassVar[int]
        ENCODING_FIELD_NUMBER: _ClassVar[int]
        PRIORITY_FIELD_NUMBER: _ClassVar[int]
        buffer_offsets: _containers.RepeatedScalarFieldContainer[int]
        buffer_sizes: _containers.RepeatedScalarFieldContainer[int]
        length: int
        encoding: PageEncoding
        priority: int
        def __init__(self, buffer_offsets: _Optional[_Iterable[int]] = ..., buffer_sizes: _Optional[_Iterable[int]] = ..., length: _Optional[int] = ..., encoding: _Optional[_Union[PageEncoding, _Mapping]] = ..., priority: _Optional[int] = ...) -> None: ...
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    PAGES_FIELD_NUMBER: _ClassVar[int]
    BUFFER_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    BUFFER_SIZES_FIELD_NUMBER: _ClassVar[int]
    encoding: PageEncoding
    pages: _containers.RepeatedCompositeFieldContainer[ColumnMetadata.Page]
    buffer_offsets: _containers.RepeatedScalarFieldContainer[int]
    buffer_sizes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, encoding: _Optional[_Union[PageEncoding, _Mapping]] = ..., pages: _Optional[_Iterable[_Union[ColumnMetadata.Page, _Mapping]]] = ..., buffer_offsets: _Optional[_Iterable[int]] = ..., buffer_sizes: _Optional[_Iterable[int]] = ...) -> None: ...

class PageEncoding(_message.Message):
    __slots__ = ("direct",)
    class Direct(_message.Message):
        __slots__ = ("encoding",)
        ENCODING_FIELD_NUMBER: _ClassVar[int]
        encoding: bytes
        def __init__(self, encoding: _Optional[bytes] = ...) -> None: ...
    DIRECT_FIELD_NUMBER: _ClassVar[int]
    direct: PageEncoding.Direct
    def __init__(self, direct: _Optional[_Union[PageEncoding.Direct, _Mapping]] = ...) -> None: ...

class PageLayout(_message.Message):
    __slots__ = ("blob_layout",)
    class Blob(_message.Message):
        __slots__ = ("inner_layout", "layers")
        INNER_LAYOUT_FIELD_NUMBER: _ClassVar[int]
        LAYERS_FIELD_NUMBER: _ClassVar[int]
        inner_layout: bytes
        layers: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, inner_layout: _Optional[bytes] = ..., layers: _Optional[_Iterable[int]] = ...) -> None: ...
    BLOB_LAYOUT_FIELD_NUMBER: _ClassVar[int]
    blob_layout: PageLayout.Blob
    def __init__(self, blob_layout: _Optional[_Union[PageLayout.Blob, _Mapping]] = ...) -> None: ...

class ColumnEncoding(_message.Message):
    __slots__ = ("blob",)
    class Blob(_message.Message):
        __slots__ = ("inner",)
        INNER_FIELD_NUMBER: _ClassVar[int]
        inner: bytes
        def __init__(self, inner: _Optional[bytes] = ...) -> None: ...
    BLOB_FIELD_NUMBER: _ClassVar[int]
    blob: ColumnEncoding.Blob
    def __init__(self, blob: _Optional[_Union[ColumnEncoding.Blob, _Mapping]] = ...) -> None: ...
